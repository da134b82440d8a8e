"""Kinds of releases."""
