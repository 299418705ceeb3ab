"""A procedure of several stages in one folder: what it was begun with, and which of its stages are finished."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from mmengine.config import Config
from mmengine.dist import barrier, is_main_process

from ..utils.errors import UsageError
from ..utils.files import replacing

# They say where and how a run goes on, not what comes out of it.
NO_SETTINGS = ('work_dir', 'resume', 'launcher', 'local_rank', 'experiment_name')
MOST_DIFFERENCES = 8

Plain = str | float | bool | None


class StageRecord:
    """A json file that the stages of a procedure are entered into as they finish.

    It belongs to the settings that it was begun with: others are refused, with what differs. All processes of a
    distributed run must use it alike; the main one writes.

    Args:
        file: The json file; it is made where there is none.
        settings: What the stages depend on, see :func:`flat_settings`.
        draws: What was drawn at random for them, such as a seed. A file that exists already keeps its own.
    """

    def __init__(self, file: Path, settings: Mapping[str, Plain], draws: Mapping[str, Plain] | None = None):
        self.file = file
        barrier()  # nobody may write before everybody has looked, nor look before the file is whole
        exists = file.is_file()
        barrier()
        if exists:
            self._content = self._read()
            self._refuse_other_settings(settings)
        else:
            self._content = dict(settings=dict(settings), draws=dict(draws or {}), finished={})
            self._write()

    @property
    def draws(self) -> dict[str, Plain]:
        """What was drawn at random when the procedure began."""
        return self._content['draws']

    def result(self, stage: str) -> dict | None:
        """What a stage was finished with; None if it is not finished."""
        return self._content['finished'].get(stage)

    def finish(self, stage: str, **result) -> None:
        """Enter a finished stage with what the next ones need of it, in json's types."""
        self._content['finished'][stage] = result
        self._write()

    def _write(self) -> None:
        if is_main_process():
            try:
                self.file.parent.mkdir(parents=True, exist_ok=True)
                with replacing(self.file) as temporary:
                    temporary.write_text(json.dumps(self._content, indent=1), encoding='utf-8')
            except OSError as error:
                raise UsageError(f'{self.file} cannot be written: {error.strerror}') from None
        barrier()

    def _read(self) -> dict:
        try:
            content = json.loads(self.file.read_text(encoding='utf-8'))
            if not all(isinstance(content[key], dict) for key in ('settings', 'draws', 'finished')):
                raise ValueError('its parts are not those of such a record')
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise UsageError(
                f'{self.file} cannot be read, so nothing is known of the work in its folder: {error}. Choose another '
                '--work-dir, or delete the folder to start anew'
            ) from None
        return content

    def _refuse_other_settings(self, settings: Mapping[str, Plain]) -> None:
        found, absent = self._content['settings'], 'not set'
        lines = [
            f'  {name}: {found.get(name, absent)!r} there, {settings.get(name, absent)!r} now'
            for name in sorted({*found, *settings})
            if found.get(name, absent) != settings.get(name, absent)
        ]
        if lines:
            more = [f'  and {len(lines) - MOST_DIFFERENCES} more'] if len(lines) > MOST_DIFFERENCES else []
            raise UsageError(
                '\n'.join(
                    (
                        f'{self.file.parent} holds work that was begun with other settings:',
                        *lines[:MOST_DIFFERENCES],
                        *more,
                        'Choose another --work-dir, or delete the folder to start anew.',
                    )
                )
            )


def flat_settings(cfg: Config) -> dict[str, Plain]:
    """All settings of a config that results depend on, by their dotted names, as json keeps them."""
    return dict(pair for key, value in cfg.items() if key not in NO_SETTINGS for pair in _flatten(key, value))


def _flatten(name: str, value: object) -> Iterator[tuple[str, Plain]]:
    if isinstance(value, Mapping) and value:
        for key, child in value.items():
            yield from _flatten(f'{name}.{key}', child)
    elif isinstance(value, (list, tuple)) and value:
        for index, child in enumerate(value):
            yield from _flatten(f'{name}.{index}', child)
    elif value is None or isinstance(value, (str, bool, int, float)):
        yield name, value
    else:
        # Classes and functions, which new-style configs hold, by their names.
        yield name, getattr(value, '__qualname__', None) or str(value)
