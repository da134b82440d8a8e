"""Frozen values: schema, guarantee, space, query, events, randomness, card, errors."""
