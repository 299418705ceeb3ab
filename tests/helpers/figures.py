"""Read figures of the authors' code and of the papers' equations (see tests/data/README.md)."""

import json
from pathlib import Path

import pytest

DATA = Path(__file__).resolve().parents[1] / 'data'
FILES = ('official_losses', 'paper_equations')
COMPARED: set[str] = set()


def read_figures(files: tuple[str, ...] = FILES) -> dict[str, dict]:
    """Return all cases of the files by their ids."""
    return {
        f'{file}-{number}-{case["name"]}': case
        for file in files
        for number, case in enumerate(json.loads((DATA / f'{file}.json').read_text()))
    }


def figures(*names: str, files: tuple[str, ...] = FILES) -> list:
    """Return the cases of these names as parameters of a test, and note that a test compares them."""
    found = {key: case for key, case in read_figures(files).items() if case['name'] in names}
    assert {case['name'] for case in found.values()} == set(names)
    COMPARED.update(found)
    return [pytest.param(case, id=key) for key, case in found.items()]
