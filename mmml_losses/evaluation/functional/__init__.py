"""Measures of arrays and tensors of scores and labels. ``evaluation/metrics`` registers them with MMEngine."""
