"""Pairs: reading them in every format, tokenising them once, splitting and batching them."""
