"""Adapt to installed packages of other projects: patch MMPretrain, list MMDetection's heads, check checkpoints."""
