"""From noisy numbers to a model, and from a model to rows; knows nothing of privacy."""
