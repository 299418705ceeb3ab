"""Helpers of the whole package: arguments, arrays, errors, files, class frequencies and logistic regression."""
