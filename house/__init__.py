"""The house measured: what `make house` prints, and the limits that may only be lowered."""
