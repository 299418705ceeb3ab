"""Components of a report page: HTML that needs no other file, suits screen readers and the light or dark mode.

All plain texts are escaped here, so callers pass them unescaped; arguments that hold HTML are not escaped.
"""

import base64
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

STYLE = """
:root { color-scheme: light dark; --ink: #1c1e21; --muted: #5c6370; --line: #d9dce1; --paper: #fff; --card: #f6f7f9;
  --accent: #0072b2; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e8eb; --muted: #a3aab5; --line: #3a3f47; --paper: #16181c; --card: #1f2227; --accent: #56b4e9; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
main { max-width: 68rem; margin: 0 auto; padding: 2.5rem 1.25rem 4rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .5rem; padding-bottom: .9rem;
  border-bottom: 3px solid var(--accent); }
h2 { font-size: 1.25rem; margin: 2.75rem 0 1rem; overflow-wrap: anywhere; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
caption { caption-side: bottom; text-align: left; }
th, td { padding: .6rem .9rem; text-align: right; border-bottom: 1px solid var(--line); font-weight: 400; }
thead th { font-weight: 600; border-bottom: 2px solid var(--ink); white-space: nowrap; }
th:first-child { text-align: left; overflow-wrap: anywhere; }
td strong { font-weight: 700; }
thead small { font-weight: 400; color: var(--muted); margin-left: .25rem; }
figure { margin: 0; }
figure img { display: block; width: 100%; height: auto; background: #fff; border: 1px solid var(--line);
  border-radius: 8px; padding: .5rem; }
figure.narrow img { max-width: 40rem; margin: 0 auto; }
caption, figcaption { color: var(--muted); font-size: .92rem; padding-top: .75rem; max-width: 56rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .45rem 1.5rem; margin: 0; padding: 1.1rem 1.25rem;
  background: var(--card); border: 1px solid var(--line); border-radius: 8px; }
dt { color: var(--muted); } dd { margin: 0; overflow-wrap: anywhere; }
@media print { main { padding: 0; } section { break-inside: avoid; } }
"""


@dataclass(frozen=True)
class Column:
    """Column of a :func:`table`: heading, a number per run, ``min`` or ``max`` to find the best, number of decimals."""

    name: str
    values: Sequence[float]
    best: Callable[[Sequence[float]], float]
    digits: int = 2

    def cells(self) -> list[str]:
        """Return each number as HTML, NaN as ``'n/a'``; of two or more, the best and its rounded ties are in bold."""
        texts = ['n/a' if math.isnan(value) else f'{value:.{self.digits}f}' for value in self.values]
        numbers = [value for value in self.values if not math.isnan(value)]
        best = f'{self.best(numbers):.{self.digits}f}' if len(numbers) > 1 else None
        return [f'<strong>{text}</strong>' if text == best else text for text in texts]

    def header(self) -> str:
        direction = 'higher is better' if self.best is max else 'lower is better'
        arrow = '↑' if self.best is max else '↓'
        return f'{escape(self.name)}<small title="{direction}" aria-label="{direction}">{arrow}</small>'


def document(title: str, sections: Sequence[str]) -> str:
    """Return a whole HTML page with ``title`` as its heading; ``sections`` hold HTML."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n'
        f'<body>\n<main>\n<h1>{escape(title)}</h1>\n' + '\n'.join(sections) + '\n</main>\n</body>\n</html>\n'
    )


def section(heading: str, body: str) -> str:
    """Return a section of the page as HTML: ``heading``, then ``body``, which is HTML."""
    return f'<section>\n<h2>{escape(heading)}</h2>\n{body}\n</section>'


def table(runs: Sequence[str], columns: Sequence[Column], caption: str) -> str:
    """Return an HTML table with a row for each name in ``runs``, the ``columns``, and a caption below it."""
    headers = ''.join(f'<th scope="col">{column.header()}</th>' for column in columns)
    rows = zip(runs, *(column.cells() for column in columns), strict=True)
    body = '\n'.join(
        f'<tr><th scope="row">{escape(name)}</th>' + ''.join(f'<td>{cell}</td>' for cell in cells) + '</tr>'
        for name, *cells in rows
    )
    return (
        f'<div class="scroll"><table>\n<caption>{escape(caption)}</caption>\n'
        f'<thead><tr><th scope="col">run</th>{headers}</tr></thead>\n'
        f'<tbody>\n{body}\n</tbody></table></div>'
    )


def figure(png: bytes, alt: str, caption: str, narrow: bool = False) -> str:
    """Return a PNG with a caption as HTML; ``alt`` describes it for screen readers, ``narrow`` limits its width."""
    data = base64.b64encode(png).decode('ascii')
    return (
        f'<figure{" class=narrow" if narrow else ""}>\n<img alt="{escape(alt)}" src="data:image/png;base64,{data}">\n'
        f'<figcaption>{escape(caption)}</figcaption>\n</figure>'
    )


def facts_list(facts: Mapping[str, object]) -> str:
    """Return an HTML description list from the names of facts to their values."""
    rows = '\n'.join(f'<dt>{escape(name)}</dt><dd>{escape(str(value))}</dd>' for name, value in facts.items())
    return f'<dl>\n{rows}\n</dl>'
