"""How the pictures look: told apart by colour, and by marker and line style where there is no colour."""

from __future__ import annotations

import io
import math
import os
import textwrap
from pathlib import Path
from typing import NamedTuple

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


class LineStyle(NamedTuple):
    """Colour, marker and dashes of one run, the same in every picture."""

    color: str
    marker: str
    linestyle: str | tuple


def line_style(index: int) -> LineStyle:
    """Style of the run at a position; 35 runs differ before the styles repeat."""
    return LineStyle(_COLOURS[index % len(_COLOURS)], _MARKERS[index % len(_MARKERS)], _LINES[index % len(_LINES)])


def plain(text: str) -> str:
    """Guard a text against matplotlib, which reads ``$`` as mathematics and hides labels that start with ``_``."""
    text = text.replace('$', r'\$')
    return f' {text}' if text.startswith('_') else text


def wrapped(text: str, width: int, max_lines: int = 1) -> str:
    """Break a text into at most ``max_lines`` lines of ``width`` characters; an ellipsis stands for what is cut."""
    lines = textwrap.wrap(text, width)
    if len(lines) > max_lines:
        # textwrap's own ellipsis would leave nothing of a long word.
        last = textwrap.shorten(' '.join(lines[max_lines - 1 : max_lines + 1]), width, placeholder=' …')
        lines = [*lines[: max_lines - 1], last if last != '…' else f'{lines[max_lines - 1][: width - 2]} …']
    return '\n'.join(lines)


def tidy(axes: Axes) -> None:
    """Give axes the look that all pictures share: a light grid behind the data and no frame."""
    axes.grid(color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[['top', 'right']].set_visible(False)
    axes.spines[['left', 'bottom']].set_color(MUTED)
    axes.tick_params(colors=INK, labelsize=9)


def add_title(figure: Figure, title: str | None) -> None:
    """Put a heading over a picture whose layout makes room for it."""
    if title:
        width = int(figure.get_figwidth() * 9)
        figure.suptitle(plain(wrapped(title, width, 3)), color=INK, fontsize=12, weight='bold')


def checked_picture_path(path: str | os.PathLike, name: str = 'path') -> Path:
    """Read the path of a picture, whose suffix says of which kind it is."""
    path = Path(path)
    if path.suffix.lower() not in PICTURE_SUFFIXES:
        raise ValueError(f"{name} must end with one of {', '.join(PICTURE_SUFFIXES)}, got '{path}'")
    return path


def save_figure(path: str | os.PathLike, figure: Figure, dpi: int = 150) -> Path:
    """Write a figure as PNG or SVG by the suffix of the path, whole or not at all.

    Args:
        path: A file that ends with ``.png`` or ``.svg``; its folder is made where it is missing.
        figure: What to write.
        dpi: Pixels per inch of a PNG.
    """
    path = checked_picture_path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    kind = path.suffix.lower().removeprefix('.')
    # Without the date, equal pictures are equal files.
    metadata = {'Date': None} if kind == 'svg' else None
    with replacing(path) as temporary:
        figure.savefig(temporary, format=kind, dpi=dpi, facecolor='white', metadata=metadata)
    return path


def percent(value: float) -> str:
    """A fraction as text."""
    return 'n/a' if math.isnan(value) else f'{100 * value:.1f} %'


def png_bytes(figure: Figure, dpi: int = 150) -> bytes:
    """Render a figure as PNG, without a display and without touching matplotlib's global state."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format='png', dpi=dpi, facecolor='white')
    return buffer.getvalue()
