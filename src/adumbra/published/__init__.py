"""The papers' algorithms verbatim, for studies and audits; never reachable from a release."""
