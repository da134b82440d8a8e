"""One file a mechanism; `catalogue` finds them."""
