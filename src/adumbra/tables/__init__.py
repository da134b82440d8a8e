"""Files and frames in, integers out."""
