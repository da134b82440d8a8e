"""Owner's side: how good a release is, measured against the truth. Nothing here is ever part of a release."""
