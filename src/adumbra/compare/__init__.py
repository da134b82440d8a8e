"""A release beside the truth: what tables, axes, counts and distances are off by. All of it is private."""
