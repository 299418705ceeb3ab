"""Evaluate a model: ``python tools/test.py CONFIG CHECKPOINT``.

Adds --loss, --hold-out, --metric, --hook and --dataloader to the flags of MMPretrain's tool. With --hold-out, as in the
training, it evaluates the held-out part of the training set and not the test set.
"""

from __future__ import annotations

import argparse
from copy import deepcopy
from pathlib import Path

from mmengine.config import Config, ConfigDict
from mmengine.dist import is_main_process
from mmengine.evaluator import DumpResults, Evaluator

from mmml_losses.cli import launch, parts
from mmml_losses.datasets.labels.nesting import leaf_configs
from mmml_losses.engine.config_data import require_data, test_over
from mmml_losses.engine.resuming import safe_checkpoint
from mmml_losses.engine.running import build_runner, save_metrics
from mmml_losses.evaluation import DetectionCalibrationError, SavePredictions
from mmml_losses.hosts.checkpoints import check_checkpoint
from mmml_losses.hosts.loss_places import is_detector, type_name
from mmml_losses.utils.errors import UsageError

PREDICTION_SUFFIXES = ('.npz', '.pkl', '.pickle')
METRIC_SUFFIXES = ('.json', '.yaml', '.yml', '.pkl', '.pickle')


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description='Evaluate a model')
    parser.add_argument('config', help='config file')
    parser.add_argument('checkpoint', help='checkpoint file')
    launch.add_common_arguments(parser)
    parts.add_part_arguments(parser)
    parser.add_argument(
        '--out',
        help='file of the results: predictions as .npz (arrays, no pickle) or .pkl, metrics (with '
        'their details under "details") as .json, with null for NaN and infinity, or .yaml',
    )
    parser.add_argument('--out-item', choices=['metrics', 'pred'], help='what --out saves: predictions by default')
    parser.add_argument(
        '--dataloader',
        choices=['train', 'val', 'test'],
        default='test',
        help='whose dataset, read by the test pipeline (default: test); --out saves the labels that it hides, too',
    )
    parser.add_argument('--show-dir', help='folder of the images with their predictions drawn in')
    parser.add_argument('--show', action='store_true', help='show the predictions in a window')
    parser.add_argument('--interval', type=int, default=1, help='draw every so many images')
    parser.add_argument('--wait-time', type=float, default=2, help='seconds that a window stays')
    parser.add_argument('--tta', action='store_true', help='test-time augmentation; by default the mean over two flips')
    args = parser.parse_args()
    if args.out_item is not None and args.out is None:
        parser.error('--out-item needs --out')
    if args.tta and args.dataloader != 'test':
        parser.error('--tta changes the pipeline of the test dataset: leave out --dataloader')
    if args.out is not None:
        suffixes = METRIC_SUFFIXES if args.out_item == 'metrics' else PREDICTION_SUFFIXES
        if Path(args.out).suffix not in suffixes:
            parser.error(f'--out of {args.out_item or "pred"} must end in one of {", ".join(suffixes)}, got {args.out}')
    return args


def apply_arguments(cfg: Config, args: argparse.Namespace) -> None:
    cfg.resume = False
    if args.hold_out is not None and args.dataloader == 'test':
        cfg.test_dataloader = cfg.val_dataloader
    if args.dataloader != 'test':
        test_over(cfg, args.dataloader)
        pack_true_labels(cfg)
    if args.amp:
        cfg.test_cfg.fp16 = True
    if args.show or args.show_dir is not None:
        if 'visualization' not in cfg.get('default_hooks', {}):
            raise UsageError("--show needs visualization=dict(type='VisualizationHook') among the default_hooks")
        cfg.default_hooks.visualization.update(
            enable=True,
            show=args.show,
            wait_time=args.wait_time,
            out_dir=args.show_dir,
            interval=args.interval,
        )
    if args.tta:
        use_test_time_augmentation(cfg)


def pack_true_labels(cfg: Config) -> None:
    """Make the test pipeline of ``cfg`` pack the ``true_label`` of samples that have hidden labels."""
    for leaf in leaf_configs(cfg.test_dataloader.dataset):
        for step in leaf.get('pipeline') or ():
            if type_name(step).rpartition('.')[2] == 'PackInputs':
                step.algorithm_keys = [*step.get('algorithm_keys', ()), 'true_label']


def use_test_time_augmentation(cfg: Config) -> None:
    """Make ``cfg`` test with its ``tta_model`` and ``tta_pipeline``, by default the mean of an image and its mirror."""
    leaves = list(leaf_configs(cfg.test_dataloader.dataset))
    pipeline = leaves[0].pipeline
    if is_detector(cfg) and not {'tta_model', 'tta_pipeline'} <= cfg.keys():
        raise UsageError('--tta of a detector needs a tta_model and a tta_pipeline in the config')
    if 'tta_pipeline' not in cfg:
        flips = [dict(type='RandomFlip', prob=1.0), dict(type='RandomFlip', prob=0.0)]
        cfg.tta_pipeline = [*deepcopy(pipeline[:-1]), dict(type='TestTimeAug', transforms=[flips, [pipeline[-1]]])]
    tta_model = cfg.get('tta_model', dict(type='mmpretrain.AverageClsScoreTTA'))
    cfg.model = ConfigDict(**tta_model, module=cfg.model)
    for leaf in leaves:
        leaf.pipeline = cfg.tta_pipeline


def save_detections(evaluator: Evaluator, file: str) -> None:
    """Make the metric that matches detections to objects save them to ``file``; raise a UsageError without one."""
    matching = [metric for metric in evaluator.metrics if isinstance(metric, DetectionCalibrationError)]
    if not matching:
        raise UsageError(
            f'--out {file} of a detector needs a metric that matches its detections: add '
            "dict(type='mmml_losses.DetectionCalibrationError') to test_evaluator, or save all detections as .pkl"
        )
    matching[0].out_file = Path(file)


def main() -> None:
    args = parse_args()
    cfg = launch.load_config(args)
    parts.append_parts(cfg, args)
    apply_arguments(cfg, args)
    datasets = require_data(cfg, args.config)
    cfg.load_from = safe_checkpoint(args.checkpoint, cfg)
    if args.hold_out is not None:
        launch.check_hold_out(check_checkpoint(cfg.load_from), args.hold_out)
    runner = build_runner(cfg, datasets)
    if args.out is not None and args.out_item != 'metrics' and is_detector(cfg) and args.out.endswith('.npz'):
        save_detections(runner.test_evaluator, args.out)
    elif args.out is not None and args.out_item != 'metrics':
        saver = (SavePredictions if args.out.endswith('.npz') else DumpResults)(args.out)
        saver.dataset_meta = runner.test_evaluator.dataset_meta  # the names of the classes
        runner.test_evaluator.metrics.insert(0, saver)  # before any metric that takes long and may be stopped
    metrics = runner.test()
    if args.out_item == 'metrics' and is_main_process():
        save_metrics(args.out, metrics, runner.test_evaluator)


if __name__ == '__main__':
    launch.exit_clearly(main)
