"""The tuner: few runs, checked against the cost model, ending in a saved configuration."""
