"""Readers of datasets, which make samples with labels from annotation files."""
