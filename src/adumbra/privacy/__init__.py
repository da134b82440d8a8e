"""Sensitivity; the meter, the engines that work for it, and the rule that charges."""
