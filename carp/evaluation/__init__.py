"""Evaluators of stories against people."""
