"""Datasets that wrap another dataset, to hide its labels, choose samples, or take the labels from a file."""
