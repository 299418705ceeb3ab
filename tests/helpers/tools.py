"""Run the scripts of tools/ in this process, which is faster than a new process for each."""

import runpy
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[2] / 'tools'


def run_tool(name: str, *arguments: object) -> None:
    """Run a script of tools/ with these arguments, as a shell does. Its errors are raised as SystemExit."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, 'argv', [str(TOOLS / name), *map(str, arguments)])
        patch.setenv('LOCAL_RANK', '0')  # otherwise the tools set it for good
        runpy.run_path(sys.argv[0], run_name='__main__')


def error_of(name: str, *arguments: object) -> str | int:
    """Run a tool that must end with an error, and return its message, or 2 if its parser rejects the arguments."""
    with pytest.raises(SystemExit) as stopped:
        run_tool(name, *arguments)
    return stopped.value.code
