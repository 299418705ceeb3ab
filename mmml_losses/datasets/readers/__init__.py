"""Readers of datasets, which make samples with labels from annotation files. CONTRIBUTING.md tells how to add one."""
