"""Tables of an experiment: figures of every setting, retrieval, and whether the figures show the papers' claims."""

from __future__ import annotations

from collections.abc import Iterable

from benchmarks.claims import print_claims
from benchmarks.experiment_figures import GROUPS, LONG_TAILED, MEASURES, MOST_CONDITIONS, Spread, conditions_name
from benchmarks.loss_rows import RESAMPLED
from benchmarks.run_store import RunStore
from benchmarks.tables import print_table


class Report:
    """Figures of all finished runs.

    Args:
        store: Store of the runs. A run holds its ``rate``, and in ``readings`` the figures by row. One training may
            give several rows, each scored through another link.
        settings: Titles of the settings by name.
        rows: Names of the losses.
        seeds: Number of seeds.
    """

    def __init__(self, store: RunStore, settings: dict[str, str], rows: Iterable[str], seeds: int):
        self.settings = settings
        self.runs: dict[tuple[str, str], list[dict]] = {}
        self.rates: dict[tuple[str, str], float] = {}
        for setting in settings:
            for row in rows:
                for seed in range(seeds):
                    run = store.find(setting, row, f'seed_{seed}')
                    for name, figures in run['readings'].items() if run else ():
                        self.runs.setdefault((setting, name), []).append(figures)
                        self.rates[setting, name] = run['rate']

    def spread(self, setting: str, row: str, figure: str) -> Spread | None:
        """Return mean and deviation of a figure, or None without runs."""
        values = [run[figure] for run in self.runs.get((setting, row), ()) if figure in run]
        return Spread(values) if values else None

    def print(self) -> None:
        """Print all tables."""
        for setting in self.settings:
            self.print_setting(setting)
        self.print_retrieval()
        print_claims(self.spread, self.settings)

    def print_setting(self, setting: str) -> None:
        """Print a row for every loss that ran in a setting."""
        is_long_tailed = setting in LONG_TAILED
        columns = (*MEASURES, *(GROUPS if is_long_tailed else ()))
        rows = [
            (
                f'{name}, RS' if is_long_tailed and name in RESAMPLED and 'RS' not in name else name,
                f'{self.rates[setting, name]:g}',
                str(len(self.runs[setting, name])),
                *(str(self.spread(setting, name, column)) for column in columns),
            )
            for place, name in self.runs
            if place == setting
        ]
        if rows:
            print_table(self.settings[setting], ('loss', 'rate', 'seeds', *columns), rows)

    def print_retrieval(self) -> None:
        """Print mAP by the number of conditions, for the losses that have it."""
        lengths = [conditions_name(number) for number in range(1, MOST_CONDITIONS + 1)]
        rows = [
            (f'{name}, {setting}', *(str(self.spread(setting, name, length)) for length in lengths))
            for setting, name in self.runs
            if self.spread(setting, name, lengths[0])
        ]
        if rows:
            print_table('Retrieval, mAP by the number of conditions', ('loss', *lengths), rows)
