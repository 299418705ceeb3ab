"""Draw retrieval mAP by number of conditions: ``python tools/analysis/retrieval_curve.py ASL=RUN BCE=RUN``."""

from __future__ import annotations

from mmml_losses.cli import launch
from mmml_losses.cli import runs as command_line
from mmml_losses.evaluation import query_retrieval
from mmml_losses.visualization import plot_retrieval_curve


def main() -> None:
    parser = command_line.picture_parser('Draw retrieval mAP against the number of conditions', 'retrieval_curve.png')
    command_line.add_runs(parser)
    parser.add_argument('--max-conditions', type=int, default=5, help='largest number of conditions of a query')
    parser.add_argument(
        '--budget', type=int, default=1_000_000, help='evaluate all queries up to this number, and a sample of more'
    )
    parser.add_argument('--sample-size', type=int, default=200_000, help='number of queries in that sample')
    options = parser.parse_args()
    runs = command_line.load_runs(options.runs)
    results = command_line.measured(
        runs,
        lambda name, run: query_retrieval(
            run.scores,
            run.labels,
            options.max_conditions,
            budget=options.budget,
            sample_size=options.sample_size,
            log=lambda line: print(f'[{name}] {line}', flush=True),
        ),
    )
    command_line.draw(options, plot_retrieval_curve, results)


if __name__ == '__main__':
    launch.exit_clearly(main)
