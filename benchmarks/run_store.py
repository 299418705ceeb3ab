"""Finished runs of an experiment, one json file each, so that a stopped experiment goes on where it was."""

from __future__ import annotations

import json
import re
from pathlib import Path

from mmml_losses.utils.files import replacing


class RunStore:
    """A folder of finished runs, each known by the names of its setting, its row and itself.

    Args:
        folder: Where the files are; made when the first run is done.
    """

    def __init__(self, folder: Path):
        self.folder = folder

    def path(self, setting: str, row: str, run: str) -> Path:
        """The file of a run."""
        # A minus or plus at the end tells rows apart.
        words = row.lower().replace('+', ' plus ').replace('-', ' minus ' if row.endswith('-') else ' ')
        return self.folder / setting / re.sub(r'[^a-z0-9]+', '_', words).strip('_') / f'{run}.json'

    def find(self, setting: str, row: str, run: str) -> dict | None:
        """The figures of a run, or None if it has not been done."""
        path = self.path(setting, row, run)
        return json.loads(path.read_text(encoding='utf-8'))['figures'] if path.exists() else None

    def has(self, names: tuple[str, str, str], made_with: dict) -> bool:
        """Whether a run has been done; one that was made with something else is refused.

        Args:
            names: Of setting, row and run.
            made_with: All that the figures depend on.
        """
        path = self.path(*names)
        if not path.exists():
            return False
        found = json.loads(path.read_text(encoding='utf-8'))['made_with']
        wanted = json.loads(json.dumps(made_with))
        if found != wanted:
            raise SystemExit(
                f'{path} was made with {found}, and now it would be made with {wanted}: remove it, or choose another '
                'folder with --out'
            )
        return True

    def keep(self, names: tuple[str, str, str], made_with: dict, figures: dict) -> None:
        """Write the file of a run."""
        path = self.path(*names)
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary:
            temporary.write_text(json.dumps(dict(made_with=made_with, figures=figures), indent=1), encoding='utf-8')
