"""What mechanisms of one family share, and the contract of a mechanism."""
