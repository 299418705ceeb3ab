r"""Train any losses on frozen features and measure them on held-out training images, or on the test images.

    python benchmarks/feature_variants.py FEATURES.npz --setting full --rates 1e-3 \
        --losses "{'type': 'SPALoss'}" "{'type': 'AsymmetricLoss', 'gamma_negative': 2}"
    python benchmarks/feature_variants.py FEATURES.npz --setting lt-sgd --class-aware --rates 3e-3 3e-2 \
        --losses LSEP DR DB-Focal
    python benchmarks/feature_variants.py FEATURES.npz --test --optimizer sgd --rates 0.01 --batch-size 512 \
        --epochs 136 --start 0.5 --bias-factor 1 --raw --losses two_way asl focal --reduction batchmean

Losses are rows of benchmarks/coco_features.py, short names of ``--loss`` or configs. Trainings use seed 0 and the
held-out images with which that benchmark compares its rates, unless ``--test`` trains on all images. For losses that
correct labels, the table has the number of unobserved labels that became positive, and how many of these are right.
"""

from __future__ import annotations

import argparse
import ast
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.coco_features import SETTINGS, Features, Setting, Split, add_recipe_options
from benchmarks.experiment_figures import GROUPS, LONG_TAILED, MEASURES, measure
from benchmarks.linear_training import OPTIMIZERS, Head, train_together
from benchmarks.loss_rows import COCO, build_loss, loss_rows
from benchmarks.tables import print_table, setup
from mmml_losses.cli.losses import find_loss
from mmml_losses.evaluation import label_recovery
from mmml_losses.losses.core.reduction import REDUCTIONS
from mmml_losses.utils.errors import UsageError


def read_loss(text: str, rows: dict[str, dict], reduction: str | None) -> dict:
    """Return the config of a row or of a short name, or parse a config; with ``reduction`` unless it has its own."""
    if text in rows:
        config = rows[text]
    elif text.startswith('{'):
        try:
            config = ast.literal_eval(text)
        except (SyntaxError, ValueError):
            raise SystemExit(f'--losses: {text} is not a dict') from None
        if 'type' not in config:
            raise SystemExit(f'--losses: a dict must have a type, got {text}')
    else:
        try:
            config = find_loss(text)
        except UsageError as error:
            raise SystemExit(f'{error}, rows: {", ".join(rows)}') from None
    return config if reduction is None else {'reduction': reduction, **config}


@torch.no_grad()
def judge(setting: Setting, head: Head, trained: Split, judged: Split) -> tuple[str, ...]:
    """Return the figures on the images ``judged``, and those of the corrected labels of the images ``trained`` on."""
    logits = head.layer(judged.features)
    if not logits.isfinite().all():
        return ('diverged',)
    is_long_tailed = setting.name in LONG_TAILED
    frequencies = setting.whole.full.sum(axis=0) if is_long_tailed else None
    figures = measure(head.loss.logit_probabilities(logits), judged.full, frequencies)
    cells = [f'{figures[name]:.2f}' for name in (*MEASURES, *(GROUPS if is_long_tailed else ()))]
    if hasattr(head.loss, 'corrected_targets') and not head.loss.remembers_samples:
        corrected = head.loss.corrected_targets(
            head.layer(trained.features), trained.observed, epoch=setting.recipe.epochs
        )
        recovery = label_recovery(trained.observed, trained.full, corrected)
        cells.append(f'{recovery.num_corrected:,}, {100 * recovery.precision:.0f} % right')
    return tuple(cells)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('features', type=Path, help='the .npz file')
    parser.add_argument('--setting', choices=SETTINGS, default='full')
    parser.add_argument('--losses', nargs='+', required=True, metavar='LOSS', help='rows, short names, dicts')
    parser.add_argument('--reduction', choices=REDUCTIONS[1:], help='of losses that have none of their own')
    parser.add_argument('--test', action='store_true', help='train on all training images and use the test images')
    parser.add_argument('--rates', nargs='+', type=float, default=[1e-3], metavar='RATE')
    parser.add_argument('--optimizer', choices=OPTIMIZERS, help='by default that of the setting')
    parser.add_argument('--class-aware', action='store_true', help='draw samples by class')
    parser.add_argument('--epochs', type=int, help='by default those of the benchmark')
    parser.add_argument('--batch-size', type=int, help='likewise')
    parser.add_argument('--raw', action='store_true', help='do not standardise the features')
    add_recipe_options(parser)
    options = parser.parse_args(argv)
    torch.set_num_threads(1)
    print(f'{setup("torch", "numpy", "mmengine")}, one thread')
    names = ('epochs', 'batch_size', 'start', 'bias_factor', 'optimizer')
    recipe = {name: value for name in names if (value := getattr(options, name)) is not None}
    setting = Features(options.features, options.raw).setting(options.setting, **recipe)
    split, judged = (setting.whole, setting.test) if options.test else (setting.tuning, setting.held_out)
    facts = setting.facts._replace(num_samples=len(split.full))
    shape = split.features.size(1), split.observed.size(1)
    configs = [read_loss(text, loss_rows(facts, COCO), options.reduction) for text in options.losses]
    trained = [(text, rate) for text in options.losses for rate in options.rates]
    heads = [
        Head(build_loss(config, split.observed), rate, shape, setting.recipe, seed=0)
        for config in configs
        for rate in options.rates
    ]
    train_together(split.features, split.observed, heads, setting.recipe, 0, options.class_aware)
    header = ('loss', 'rate', *MEASURES, *(GROUPS if options.setting in LONG_TAILED else ()), 'corrected')
    rows = [
        (text, f'{rate:g}', *judge(setting, head, split, judged))
        for (text, rate), head in zip(trained, heads, strict=True)
    ]
    rows = [row + ('',) * (len(header) - len(row)) for row in rows]
    print_table(f'{SETTINGS[options.setting]}, {"test" if options.test else "held-out"} images', header, rows)


if __name__ == '__main__':
    main()
