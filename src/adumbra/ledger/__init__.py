"""What was spent: policy, lines, storage."""
