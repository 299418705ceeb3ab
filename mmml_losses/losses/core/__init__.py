"""Share among all losses: inputs, reduction, memory, class frequencies."""
