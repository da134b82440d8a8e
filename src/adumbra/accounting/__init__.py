"""What was measured and what it costs: events, their composition, epsilon and delta, and the scale of noise."""
