"""Numerics of utility-aware releases, which see public records only."""
