"""Calibration: measure what the datasheet does not say, on the device at hand."""

from executors.calibrate.run import calibrate, quick_cpu

__all__ = ["calibrate", "quick_cpu"]
