"""Numerics that know nothing of privacy."""
