"""Language models that rate stories on Likert scales."""
