"""From raw stories and comments to clean pairs: each step is a function of its own, the pipeline runs them all."""
