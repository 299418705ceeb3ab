"""Hooks that MMEngine's Runner calls during training, validation and test."""
