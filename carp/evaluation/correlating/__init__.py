"""Evaluators against people's ratings: an evaluator as one more rater."""
