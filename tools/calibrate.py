"""Calibrate a trained classifier: ``python tools/calibrate.py CONFIG CHECKPOINT``.

Fits temperature, Platt or vector scaling to the validation set, or to the part of the training set that the training
held out (``--hold-out``). Writes a checkpoint and a config that give calibrated
probabilities. The weights of the model do not change.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

from mmengine.config import Config
from mmengine.dist import is_main_process
from mmengine.logging import print_log
from mmengine.model import is_model_wrapper

from mmml_losses.cli import launch
from mmml_losses.engine.config_data import held_out_settings, hold_out, require_data, share_data, trained_hold_out
from mmml_losses.engine.model_loss import METHODS, find_loss_place
from mmml_losses.engine.resuming import safe_checkpoint
from mmml_losses.engine.running import build_runner
from mmml_losses.hosts.checkpoints import check_checkpoint
from mmml_losses.procedures.calibrate import Calibration, collect_logits, fit_link, write_calibrated
from mmml_losses.utils.errors import UsageError


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description='Fit the probabilities of a trained classifier to labelled data')
    parser.add_argument('config', help='config file')
    parser.add_argument('checkpoint', help='checkpoint file')
    parser.add_argument(
        '--method',
        choices=list(METHODS),
        default='temperature',
        help='what is fitted: one temperature (default), one scale and bias (platt), or one of each for every class '
        '(vector)',
    )
    parser.add_argument(
        '--dataloader',
        choices=['val', 'test'],
        default='val',
        help='whose data to fit: val_dataloader by default, which is the held-out part if the training held one out',
    )
    parser.add_argument(
        '--out',
        metavar='FILE',
        help='checkpoint to write, ending in .pth; its config has the same name and ends in .py. By default '
        'CHECKPOINT_METHOD.pth in the work folder',
    )
    launch.add_common_arguments(parser)
    args = parser.parse_args()
    if args.out is not None and not args.out.endswith('.pth'):
        parser.error(f'--out must end in .pth, got {args.out}')
    return args


def check_config(cfg: Config, args: argparse.Namespace) -> None:
    launch.reject_detector(
        cfg,
        args.config,
        ', whose detections are no rows of labels to fit a link to. The link of its loss can be set, that of Focal for '
        'example: --cfg-options model.bbox_head.loss_cls.link=phi',
    )
    if cfg.get(f'{args.dataloader}_dataloader') is None:
        raise UsageError(f'--dataloader {args.dataloader}: {args.config} has no {args.dataloader}_dataloader')


def hold_out_as_trained(configs: Sequence[Config], checkpoint: Mapping, share: float | None) -> None:
    """Hold out what was held out when ``checkpoint`` was trained; ``share`` (``--hold-out``) must be as there."""
    if share is not None:
        launch.check_hold_out(checkpoint, share)
    split = trained_hold_out(checkpoint)
    for cfg in configs:
        if split is not None and not any(held_out_settings(cfg.get('train_dataloader'))):
            hold_out(cfg, *split)


def output_file(args: argparse.Namespace, cfg: Config) -> Path:
    """Return the checkpoint file to write; raise an error if it would replace a file that is read."""
    file = Path(args.out or Path(cfg.work_dir, f'{Path(args.checkpoint).stem}_{args.method}.pth'))
    config_file = file.with_suffix('.py')
    for source, written in ((args.checkpoint, file), (args.config, config_file)):
        if Path(source).resolve() == written.resolve():
            raise UsageError(f'{written} is read and cannot be written as well: name another file with --out')
    if config_file.exists() and not file.exists():
        raise UsageError(f'{config_file} exists and belongs to no {file.name}: name another file with --out')
    return file


def report(calibration: Calibration, args: argparse.Namespace, num_images: int, file: Path) -> str:
    """Return a text with the fit, the figures before and after it, and how to use the files."""
    rows = [
        f'{name:<8}{figures.nll:>9.4f}{figures.ace:>9.2f}{figures.ece:>9.2f}{figures.mce:>9.2f}'
        for name, figures in (('before', calibration.before), ('after', calibration.after))
    ]
    return '\n'.join(
        (
            f'{args.method} scaling, fitted to {num_images} images of the {args.dataloader}_dataloader: '
            f'{calibration.summary}',
            'On these same images, so on the data of the fit (calibration errors in percent):',
            f'{"":<8}{"NLL":>9}{"ACE":>9}{"ECE":>9}{"MCE":>9}',
            *rows,
            'To read the calibrated probabilities:',
            f'  python tools/test.py {file.with_suffix(".py")} {file}',
        )
    )


def main() -> None:
    args = parse_args()
    cfg = launch.load_config(args)
    check_config(cfg, args)
    cfg.resume = False
    source = launch.read_config(args.config, args.cfg_options, args.loss, args.model)
    checkpoint_file = safe_checkpoint(args.checkpoint, cfg)
    hold_out_as_trained([cfg, source], check_checkpoint(checkpoint_file), args.hold_out)
    if share_data(cfg[f'{args.dataloader}_dataloader'], cfg.get('test_dataloader')):
        print_log(
            f'The {args.dataloader}_dataloader has the test images: probabilities that are fitted to them look better '
            'on them than they are. Train with --hold-out 0.2, and this tool fits to the held-out images',
            logger='current',
            level=logging.WARNING,
        )
    require_data(cfg, args.config)
    file = output_file(args, cfg)
    runner = build_runner(cfg)
    model = runner.model.module if is_model_wrapper(runner.model) else runner.model
    place = find_loss_place(cfg, model)
    runner.call_hook('before_run')
    checkpoint = runner.load_checkpoint(checkpoint_file)
    dataloader = runner.build_dataloader(cfg[f'{args.dataloader}_dataloader'], seed=runner.seed)
    collected = collect_logits(model, dataloader, args.amp)
    if not is_main_process():
        return
    logits, targets = collected
    calibration = fit_link(place, args.method, logits, targets)
    comment = f'{args.config} with {args.method} scaling, fitted by tools/calibrate.py to its {args.dataloader} data'
    write_calibrated(file, comment, source, checkpoint, place, calibration.loss_config)
    print(report(calibration, args, len(logits), file))


if __name__ == '__main__':
    launch.exit_clearly(main)
