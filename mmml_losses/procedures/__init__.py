"""Run procedures of several steps: calibrate, label, train again, extract features."""
