"""Show the images that runs find: ``python tools/analysis/retrieval_sheet.py RUN ... --query '3 and 7, not 5'``."""

from __future__ import annotations

from mmml_losses.cli import launch
from mmml_losses.cli import runs as command_line
from mmml_losses.visualization import plot_retrieval_sheet


def main() -> None:
    parser = command_line.picture_parser('Show the images that runs rank first for queries', 'retrieval_sheet.png')
    command_line.add_runs(parser)
    parser.add_argument(
        '--query', action='append', required=True, metavar='QUERY', help="such as '3 and 7, not 5'; may be repeated"
    )
    parser.add_argument('--top', type=int, default=8, help='number of images in a row')
    options = parser.parse_args()
    runs = command_line.load_runs(options.runs)
    command_line.draw(options, plot_retrieval_sheet, runs, options.query, options.top)


if __name__ == '__main__':
    launch.exit_clearly(main)
