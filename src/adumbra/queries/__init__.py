"""Queries that may be asked of private rows: public data, above numerics and below privacy."""
