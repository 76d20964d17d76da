"""Evaluators against human votes: how near is an evaluator to what people chose (CARP, sections 4.2 to 5)?"""
