"""Plain numerics that know nothing of privacy."""
