"""What queries on noisy counts err by; knows nothing of privacy."""
