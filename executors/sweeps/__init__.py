"""Sweeps: named sets of workloads and the runner that records them, `python -m executors.sweeps`."""
