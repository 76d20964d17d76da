"""Zero-shot classifiers out of sets of critiques, and how well they tell real labels apart (CARP, appendix A)."""
