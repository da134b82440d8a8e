"""What the owner declares: schema, columns, guarantee, and how a cell is read."""
