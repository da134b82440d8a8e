"""Tables in and out: reading, encoding, bounding, drafting a schema."""
