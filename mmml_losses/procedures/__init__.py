"""Procedures of several steps for tools and scripts: calibrate a model, write labels, self-train, extract features."""
