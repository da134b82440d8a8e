"""What every room may use: errors, checks, careful files, limits."""
