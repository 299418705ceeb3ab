"""Hook into a Runner."""
