"""Whole forward steps of a decoder: real attention calls between products of a model's shapes, random weights."""
