"""Claims of the papers as comparisons of rows, checked against the figures of an experiment."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import NamedTuple

from benchmarks.experiment_figures import FALL, LONG_TAILED, MOST_CONDITIONS, Spread, conditions_name
from benchmarks.tables import print_table

EQUAL = 1.0
"""Points of mAP by which a row may be behind and still count as equal."""

# Returns a figure over the seeds for a setting, a row and a measure; None without a run.
Find = Callable[[str, str, str], Spread | None]


class Comparison(NamedTuple):
    """Claim that one row is better than another.

    Args:
        setting: Name of the setting.
        row: Name of the better row.
        other: Name of the other row.
        measure: Name of the figure that is compared.
        sign: 1 if a larger figure is better, -1 if a smaller one is.
        slack: Points by which the first row may be behind. More than 0 claims that it is no worse, not that it is
            better.
    """

    setting: str
    row: str
    other: str
    measure: str
    sign: int = 1
    slack: float = 0.0

    def __str__(self) -> str:
        relation = 'no worse than' if self.slack else 'over'
        return f'{self.setting}: {self.row} {relation} {self.other}'


def _calibrates_better(row: str, other: str) -> list[Comparison]:
    return [
        Comparison('full', row, other, 'ACE', sign=-1),
        Comparison('full', row, other, 'mAP@class', slack=EQUAL),
        Comparison('full', row, other, 'mAP@sample', slack=EQUAL),
    ]


CLAIMS: dict[str, list[Comparison]] = {
    'SPA calibrates better than ASL and Focal at equal mAP': [
        *_calibrates_better('SPA', 'ASL'),
        *_calibrates_better('SPA', 'Focal'),
    ],
    'LPR improves ACE further': [Comparison('full', 'SPA + LPR', 'SPA', 'ACE', sign=-1)],
    'Two-way beats ASL on both mAPs': [
        Comparison('full', 'Two-way', 'ASL', 'mAP@class'),
        Comparison('full', 'Two-way', 'ASL', 'mAP@sample'),
    ],
    'With missing labels Hill, SPLC and LASD beat BCE, WAN and ASL': [
        Comparison(setting, row, other, 'mAP@class')
        for setting in ('40', 'single')
        for row in ('Hill', 'SPLC', 'LASD')
        for other in ('BCE', 'WAN', 'ASL')
    ],
    'On the long tail DR beats LSEP': [Comparison(setting, 'DR', 'LSEP', 'mAP@class') for setting in LONG_TAILED],
    'On the long tail DB-Focal helps the tail': [
        Comparison(setting, 'DB-Focal', other, 'tail')
        for setting in LONG_TAILED
        for other in ('BCE', 'BCE + RS', 'Focal')
    ],
    'Retrieval falls faster with ASL than with SPA as queries grow': [
        Comparison('full', 'SPA', 'ASL', FALL, sign=-1),
        Comparison('full', 'SPA', 'ASL', conditions_name(MOST_CONDITIONS)),
    ],
}


def verdict(comparison: Comparison, better: Spread, worse: Spread) -> tuple[float, float, str]:
    """Return how much better the first row is, the deviation of this difference, and whether the claim holds."""
    difference = comparison.sign * (better.mean - worse.mean)
    deviation = math.hypot(better.deviation, worse.deviation)
    if comparison.slack:
        return difference, deviation, 'yes' if difference >= -comparison.slack else 'no'
    if difference <= 0:
        return difference, deviation, 'no'
    return difference, deviation, 'yes' if difference > deviation else 'within the deviation'


def print_claims(find: Find, settings: Collection[str]) -> None:
    """Print a table of all comparisons, with a line for each claim that tells whether the figures show it.

    Args:
        find: Returns the figures.
        settings: Settings of the experiment. Comparisons in other settings are left out.
    """
    rows = []
    for claim, comparisons in CLAIMS.items():
        comparisons = [comparison for comparison in comparisons if comparison.setting in settings]
        found = []
        for comparison in comparisons:
            spreads = [find(comparison.setting, name, comparison.measure) for name in comparison[1:3]]
            if None in spreads:
                continue
            difference, deviation, answer = verdict(comparison, *spreads)
            found.append((str(comparison), comparison.measure, f'{difference:+.2f} ± {deviation:.2f}', answer))
        rows.append((f'**{claim}**', '', '', f'**{_overall([row[-1] for row in found], len(comparisons))}**'))
        rows.extend(found)
    print_table('Claims (difference: better is positive)', ('claim', 'figure', 'difference', 'appears'), rows)


def _overall(answers: list[str], wanted: int) -> str:
    if not answers:
        return 'not run'
    shown = answers.count('yes')
    if len(answers) == wanted == shown:
        return 'yes'
    return f'{shown} of {wanted}' + (f' ({wanted - len(answers)} not run)' if len(answers) < wanted else '')
