"""Calibration, sensitivity, noise, the meter (the door) and the ledger."""
