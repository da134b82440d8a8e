"""Samplers of the noise, exact in integers."""
