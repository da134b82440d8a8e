"""Utility-aware releases: what serves one purpose and hides another. Not differential privacy, unless it says so."""
