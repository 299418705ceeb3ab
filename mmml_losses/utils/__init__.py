"""Help every other room with arrays, files and errors."""
