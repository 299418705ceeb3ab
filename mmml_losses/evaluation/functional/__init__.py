"""Measure arrays and tensors of scores and labels."""
