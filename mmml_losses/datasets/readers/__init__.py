"""Readers of datasets: annotation files in, samples with labels out."""
