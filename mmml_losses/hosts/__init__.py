"""Adapt to other packages: their versions, checkpoints and heads."""
