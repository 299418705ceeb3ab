"""Finished runs of an experiment, one json file each, so that a stopped experiment can be resumed."""

from __future__ import annotations

import json
import re
from pathlib import Path

from mmml_losses.utils.files import replacing


class RunStore:
    """Folder of finished runs. The names of its setting, its row and its run identify each.

    Args:
        folder: Folder of the files, made when the first run is written.
    """

    def __init__(self, folder: Path):
        self.folder = folder

    def path(self, setting: str, row: str, run: str) -> Path:
        """Return the file of a run."""
        # Some rows differ by a minus or plus at the end.
        words = row.lower().replace('+', ' plus ').replace('-', ' minus ' if row.endswith('-') else ' ')
        return self.folder / setting / re.sub(r'[^a-z0-9]+', '_', words).strip('_') / f'{run}.json'

    def find(self, setting: str, row: str, run: str) -> dict | None:
        """Return the figures of a run, or None if it is not finished."""
        path = self.path(setting, row, run)
        return json.loads(path.read_text(encoding='utf-8'))['figures'] if path.exists() else None

    def has(self, names: tuple[str, str, str], made_with: dict) -> bool:
        """Return True if a run is finished; raise an error if it was made with other settings.

        Args:
            names: Names of setting, row and run.
            made_with: All settings that the figures depend on.
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
