"""Executors: run the real backends, correctness first, then timed."""
