"""Wrappers of datasets that hide labels, choose samples, or replace labels by the labels of a file."""
