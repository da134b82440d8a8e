"""What to make of noisy tables and moments: models and rows. Public side only: nothing here sees a private row."""
