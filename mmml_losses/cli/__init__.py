"""Parts that the command-line tools share. Each command is a script in ``tools/``.

"Add a tool" in ``CONTRIBUTING.md`` lists the steps for a new command.
"""
