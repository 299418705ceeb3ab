"""Arrays, arguments, files and errors for the whole package."""
