"""What an analyst does with a release."""
