"""What a model makes of passages that are changed in known ways: no labels are needed."""
