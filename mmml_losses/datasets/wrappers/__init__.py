"""Datasets around others that hide labels, choose samples or bring labels from files."""
