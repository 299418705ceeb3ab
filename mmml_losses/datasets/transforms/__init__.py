"""Pipeline steps."""
