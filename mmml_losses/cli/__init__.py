"""Functions that the command-line tools in ``tools/`` share. "Add a tool" in ``CONTRIBUTING.md`` lists all steps."""
