"""The labels of a dataset: read, drawn, saved."""
