"""Code that all losses share: input checks, reduction, per-sample memory and class frequencies."""
