"""Rules between columns: what every released row obeys, and columns that follow from others. All of it is public."""
