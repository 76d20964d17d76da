"""Passages damaged in known ways, with the remarks that then fit them."""
