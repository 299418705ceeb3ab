"""Summarise and draw the labels of a dataset: ``python tools/browse_labels.py CONFIG --out label_counts.png``.

Prints the number of images and labels, the labels per image, the classes in head, medium and tail, and the images of
each class, both before and after label wrappers hide labels or leave images out. Draws these counts. Reads annotation
files only; the images need not exist.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from mmengine.config import Config

from mmml_losses.cli import launch
from mmml_losses.cli import runs as command_line
from mmml_losses.datasets import read_label_changes
from mmml_losses.engine.config_data import load_dataset
from mmml_losses.evaluation import LabelSummary, describe_labels, summarize_labels
from mmml_losses.utils.arguments import check_suffix
from mmml_losses.utils.errors import UsageError
from mmml_losses.utils.files import replacing
from mmml_losses.utils.frequencies import HEAD_FROM, MEDIUM_FROM
from mmml_losses.visualization import plot_label_counts

# Images with at least this many labels share a line.
MANY_LABELS = 15


def parse_args() -> argparse.Namespace:
    parser = command_line.picture_parser('Summarise and draw the labels of a dataset', 'label_counts.png')
    parser.add_argument('config', help='config file')
    launch.add_dataloader(parser)
    parser.add_argument('--json', metavar='FILE.json', help='write the summary to this file, too')
    parser.add_argument(
        '--classes',
        type=number_of_classes,
        default=10,
        metavar='N',
        help="how many of the most frequent and of the rarest classes to list, or 'all' (default: 10)",
    )
    parser.add_argument('--head-from', type=int, default=HEAD_FROM, metavar='N', help='fewest images of a head class')
    parser.add_argument(
        '--medium-from', type=int, default=MEDIUM_FROM, metavar='N', help='fewest images of a medium class'
    )
    launch.add_cfg_options(parser, 'train_dataloader.dataset.seed=1')
    return parser.parse_args()


def number_of_classes(text: str) -> int | None:
    if text == 'all':
        return None
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"must be a whole number or 'all', got {text}")
    return int(text)


def check_arguments(args: argparse.Namespace) -> None:
    if not 0 <= args.medium_from <= args.head_from:
        raise UsageError(f'--medium-from must be in [0, --head-from = {args.head_from}], got {args.medium_from}')
    if args.json is not None:
        check_suffix('--json', args.json, '.json')


def summarize(cfg: Config, args: argparse.Namespace) -> LabelSummary:
    try:
        changes = read_label_changes(load_dataset(cfg, args.dataloader, args.config))
    except TypeError as error:
        raise UsageError(f'the labels of {args.config} cannot be read: {error}') from None
    return summarize_labels(
        changes.classes,
        changes.observed,
        changes.true,
        changes.original,
        medium_from=args.medium_from,
        head_from=args.head_from,
    )


def class_rows(summary: LabelSummary, num_shown: int | None) -> list[dict[str, str]]:
    """Return table rows (dicts from column to text) of the ``num_shown`` first and last classes by frequency."""
    group_of = {index: name for name, members in summary.groups.items() for index in members}
    columns = dict(before=summary.before.counts, after=summary.after.counts) if summary.is_changed else {}
    columns = columns or dict(images=summary.after.counts)
    optional = dict(hidden=summary.hidden, added=summary.added, unknown=summary.after.unknown)
    columns |= {name: counts for name, counts in optional.items() if counts.any()}
    rows = [
        {'class': summary.classes[index]}
        | {name: f'{counts[index]:,}' for name, counts in columns.items()}
        | {'group': group_of[index]}
        for index in summary.order.tolist()
    ]
    if num_shown is None or len(rows) <= 2 * num_shown + 1:
        return rows
    left_out = {key: '' for key in rows[0]} | {'class': f'… {len(rows) - 2 * num_shown:,} more …'}
    return [*rows[:num_shown], left_out, *rows[len(rows) - num_shown :]]


def image_rows(summary: LabelSummary) -> list[dict[str, str]]:
    """Return table rows (dicts from column to text) with the number of images that have 0, 1, 2, … labels."""
    shown = dict(before=summary.before, after=summary.after) if summary.is_changed else dict(images=summary.after)
    most = max(statistics.images_by_labels.size for statistics in shown.values()) - 1
    rows = []
    for number in range(min(most, MANY_LABELS) + 1):
        last = number == MANY_LABELS and most > MANY_LABELS
        row = {'labels of an image': f'{number} or more' if last else str(number)}
        for name, statistics in shown.items():
            row[name] = f'{statistics.images_by_labels[number:][: None if last else 1].sum():,}'
        rows.append(row)
    return rows


def write_json(path: str, summary: LabelSummary) -> None:
    file = Path(path).expanduser()
    with command_line.writing(path):
        file.parent.mkdir(parents=True, exist_ok=True)
        with replacing(file) as temporary:
            temporary.write_text(json.dumps(summary.to_dict(), indent=1, ensure_ascii=False), encoding='utf-8')
    print(f'wrote {path}')


def main() -> None:
    args = parse_args()
    check_arguments(args)
    summary = summarize(launch.read_config(args.config, args.cfg_options), args)
    print('\n'.join(describe_labels(summary)), end='\n\n')
    launch.print_table(image_rows(summary))
    print()
    if args.classes != 0:
        launch.print_table(class_rows(summary, args.classes), texts=['group'])
        print()
    if args.json is not None:
        write_json(args.json, summary)
    command_line.draw(args, plot_label_counts, summary)


if __name__ == '__main__':
    launch.exit_clearly(main)
