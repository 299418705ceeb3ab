"""Compute metrics from arrays and tensors of scores and labels."""
