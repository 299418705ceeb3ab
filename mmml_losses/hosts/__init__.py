"""Adapt to the installed packages of other projects: patch MMPretrain, know MMDetection's heads, open checkpoints."""
