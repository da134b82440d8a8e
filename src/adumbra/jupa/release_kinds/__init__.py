"""The kinds of utility-aware releases, one file each; `release_catalogue` finds them."""
