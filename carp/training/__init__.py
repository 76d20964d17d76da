"""Training: the exact large-batch step, the loop around it, checkpoints, metrics and plots."""
