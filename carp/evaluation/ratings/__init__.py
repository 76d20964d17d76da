"""Ratings of stories by several raters: :func:`carp.evaluation.ratings.report.write_agreement` makes the report."""
