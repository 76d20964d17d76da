"""Scoring: stories against reviews, with windows for long stories and paraphrases for steadier scores."""
