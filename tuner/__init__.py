"""The tuner: a search guided by the cost model and verified by real runs, saved for serving code to load."""
