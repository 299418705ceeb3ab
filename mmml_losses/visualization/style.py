"""How the pictures look: told apart by colour, and by marker and line style where there is no colour."""

from __future__ import annotations

import io
import textwrap
from typing import NamedTuple

from matplotlib.figure import Figure

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
    return '\n'.join(textwrap.wrap(text, width, max_lines=max_lines, placeholder=' …'))


def png_bytes(figure: Figure, dpi: int = 150) -> bytes:
    """Render a figure as PNG, without a display and without touching matplotlib's global state."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format='png', dpi=dpi, facecolor='white')
    return buffer.getvalue()
