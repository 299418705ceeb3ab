"""Provide the command line: arguments, configs, tables and messages of the tools."""
