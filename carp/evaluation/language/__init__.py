"""Language models as evaluators of stories: the baselines of CARP, section 4.1."""
