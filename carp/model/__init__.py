"""The two-tower model, its configuration and everything about one text becoming one embedding."""
