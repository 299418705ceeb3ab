"""Style of the pictures. Runs differ by colour, and by marker and dashes for readers who see no colour."""

import io
import math
import os
import textwrap
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..utils.files import replacing

PICTURE_SUFFIXES = ('.png', '.svg')

# Colours of Okabe and Ito, distinct under the common kinds of colour blindness.
BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY = '#0072B2', '#D55E00', '#009E73', '#AA3377', '#E69F00', '#56B4E9'
# Dark enough to differ from the green in black and white too.
RED = '#B3123A'
INK, MUTED, GRID, BACKGROUND = '#1c1e21', '#5c6370', '#d9dce1', '#eceef1'

_COLOURS = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, INK)
_MARKERS = ('o', 's', '^', 'D', 'v', 'P', 'X')
_LINES = ('-', (0, (5, 1.5)), (0, (1, 1)), (0, (6, 1.5, 1, 1.5)), (0, (3, 1, 1, 1, 1, 1)))


def line_style(index: int, **more) -> dict:
    """Return a dict of matplotlib's line arguments for the run at ``index``, with ``more``; the first 35 differ."""
    return {
        'color': _COLOURS[index % len(_COLOURS)],
        'marker': _MARKERS[index % len(_MARKERS)],
        'linestyle': _LINES[index % len(_LINES)],
        'linewidth': 2,
        'markeredgecolor': 'white',
        'markeredgewidth': 0.8,
        **more,
    }


def plain(text: str) -> str:
    """Return a text escaped for matplotlib, which reads ``$`` as mathematics and hides labels that start with ``_``."""
    text = text.replace('$', r'\$')
    return f' {text}' if text.startswith('_') else text


def wrapped(text: str, width: int, max_lines: int = 1) -> str:
    """Return a text broken into at most ``max_lines`` lines of ``width`` characters; an ellipsis marks a cut."""
    lines = textwrap.wrap(text, width)
    if len(lines) > max_lines:
        # textwrap's own ellipsis would leave nothing of a long word.
        last = textwrap.shorten(' '.join(lines[max_lines - 1 : max_lines + 1]), width, placeholder=' …')
        lines = [*lines[: max_lines - 1], last if last != '…' else f'{lines[max_lines - 1][: width - 2]} …']
    return '\n'.join(lines)


def tidy(axes: Axes, xlabel: str = '', ylabel: str = '', heading: str = '', note: str = '') -> None:
    """Give a panel's axes the look of all pictures: a light grid behind the data, no frame at the top and the right.

    ``xlabel`` and ``ylabel`` label the axes. Above the panel is ``heading``, bold, or without it ``note``, muted.
    """
    axes.grid(color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[['top', 'right']].set_visible(False)
    axes.spines[['left', 'bottom']].set_color(MUTED)
    axes.tick_params(colors=INK, labelsize=9)
    axes.set_xlabel(xlabel, color=INK)
    axes.set_ylabel(ylabel, color=INK)
    if heading:
        axes.set_title(heading, loc='left', color=INK, fontsize=10, weight='bold')
    elif note:
        axes.set_title(note, loc='left', color=MUTED, fontsize=9)


def mark_group(axes: Axes, number: int, left: float, right: float, divided: bool) -> None:
    """Shade x from ``left`` to ``right`` if the group's ``number`` is odd; if ``divided``, draw a line at ``left``."""
    if number % 2 == 1:
        axes.axvspan(left, right, color=BACKGROUND, zorder=0)
    if divided:
        axes.axvline(left, color=MUTED, linewidth=1, linestyle=(0, (2, 2)))


def write_above(axes: Axes, x: float, text: str, xcoords: str) -> None:
    """Write a text just above axes, centred at ``x`` in matplotlib's coordinates ``xcoords``, such as ``'data'``."""
    coords, offset = (xcoords, 'axes fraction'), (0, 3)
    axes.annotate(text, (x, 1), offset, coords, 'offset points', ha='center', color=MUTED, fontsize=9)


def write_class_names(axes: Axes, places: np.ndarray, names: Sequence[str], width: int) -> None:
    """Write the names of classes below axes, each at its x coordinate in ``places`` and cut to ``width`` characters."""
    axes.set_xticks(places, [plain(wrapped(name, width)) for name in names])
    if max(map(len, names)) > 2:
        axes.tick_params(axis='x', labelrotation=90, labelsize=8 if len(names) <= 50 else 7)


def legend_below(figure: Figure, handles: Sequence, names: Sequence[str], **kwargs) -> None:
    """Draw one legend below all panels, where it covers no data; ``kwargs`` are arguments of ``Figure.legend``."""
    style = {'fontsize': 9, 'edgecolor': GRID, 'labelcolor': INK, **kwargs}
    figure.legend(handles, names, loc='outside lower center', **style)


def add_title(figure: Figure, title: str | None) -> None:
    """Write ``title`` as the heading of a figure with constrained layout; None writes nothing."""
    if title:
        width = int(figure.get_figwidth() * 9)
        figure.suptitle(plain(wrapped(title, width, 3)), color=INK, fontsize=12, weight='bold')


def checked_picture_path(path: str | os.PathLike, name: str = 'path') -> Path:
    """Return ``path`` as a Path; raise a ValueError, with ``name`` in it, unless it ends with ``.png`` or ``.svg``."""
    path = Path(path)
    if path.suffix.lower() not in PICTURE_SUFFIXES:
        raise ValueError(f"{name} must end with one of {', '.join(PICTURE_SUFFIXES)}, got '{path}'")
    return path


def save_figure(path: str | os.PathLike, figure: Figure, dpi: int = 150) -> Path:
    """Write a figure to ``path``, which ends with ``.png`` or ``.svg``, and return the path.

    ``dpi`` is the pixels per inch of a PNG. A missing folder is created. An error leaves no half-written file.
    """
    path = checked_picture_path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    kind = path.suffix.lower().removeprefix('.')
    metadata = {'Date': None} if kind == 'svg' else None  # so that equal pictures are equal files
    with replacing(path) as temporary:
        figure.savefig(temporary, format=kind, dpi=dpi, facecolor='white', metadata=metadata)
    return path


def percent(value: float) -> str:
    """Return a fraction as text in percent, such as ``'12.3 %'``; ``'n/a'`` for NaN."""
    return 'n/a' if math.isnan(value) else f'{100 * value:.1f} %'


def png_bytes(figure: Figure, dpi: int = 150) -> bytes:
    """Return a figure as the bytes of a PNG file, without a display and without touching matplotlib's global state."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format='png', dpi=dpi, facecolor='white')
    return buffer.getvalue()
