"""Write the frozen features of a dataset: ``python tools/extract_features.py CONFIG CHECKPOINT --out FILE.npz``.

Each image goes once through the test pipeline, the backbone and the neck of the config. ``mmml_losses.FeatureDataset``
reads the file, and configs/bce_features.py trains on it. Run the same command again to resume after an interruption.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn

from mmml_losses.cli import launch
from mmml_losses.procedures.extract_features import (
    FeatureParts,
    extract_split,
    prepare_split,
    settings_of,
)
from mmml_losses.procedures.feature_model import build_feature_model
from mmml_losses.utils.errors import UsageError


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description='Write the frozen features of a dataset, with its labels')
    parser.add_argument('config', help='config file with a model, and a test pipeline')
    parser.add_argument(
        'checkpoint', help='checkpoint of the model, or weights of its backbone alone: .pth or .safetensors'
    )
    parser.add_argument(
        '--out', default='data/features.npz', metavar='FILE.npz', help='file to write (default: %(default)s)'
    )
    parser.add_argument('--overwrite', action='store_true', help='replace the file if there is one')
    parser.add_argument(
        '--dataloader',
        nargs='+',
        choices=['train', 'val', 'test'],
        default=['train', 'test'],
        help='whose datasets (default: train test); their arrays are called train_features and so on',
    )
    parser.add_argument(
        '--dtype', choices=['float16', 'float32'], default='float16', help='type of the features (default: float16)'
    )
    parser.add_argument(
        '--device',
        default='cuda' if torch.cuda.is_available() else 'cpu',
        help='where to run (default: a GPU if there is one)',
    )
    launch.add_cfg_options(parser, 'test_dataloader.batch_size=64')
    return parser.parse_args()


def on_device(model: nn.Module, device: str) -> nn.Module:
    try:
        return model.to(device)
    except (RuntimeError, AssertionError) as error:  # PyTorch asserts that it was compiled for GPUs
        reason = str(error).splitlines()[0]
        raise UsageError(f'--device must be a device of this machine, such as cpu, got {device!r}: {reason}') from None


def main() -> None:
    args = parse_args()
    out = launch.check_output(Path(args.out).expanduser(), '.npz', args.overwrite)
    launch.make_folder(out)
    cfg = launch.read_config(args.config, args.cfg_options)
    if cfg.get('model') is None:
        raise UsageError(f'{args.config} has no model')
    model = on_device(build_feature_model(cfg, args.checkpoint), args.device)
    splits = [prepare_split(cfg, name, args.config) for name in dict.fromkeys(args.dataloader)]
    if len({split.classes for split in splits}) > 1:
        raise UsageError('the datasets have different classes: write a file for each, with --dataloader and --out')
    parts = FeatureParts(out, settings_of(cfg, args.checkpoint, splits), args.dtype)
    # Without folders, which differ between machines.
    made_by = dict(tool='extract_features.py', config=Path(args.config).name, checkpoint=Path(args.checkpoint).name)
    try:
        for split in splits:
            extract_split(model, split, parts)
        parts.join(
            {split.name: split.arrays for split in splits},
            classes=np.array(splits[0].classes, dtype=str),
            made_by=np.array(json.dumps(made_by)),
        )
    except KeyboardInterrupt:
        print(f'\nstopped: the same command resumes from {parts.folder}', file=sys.stderr)
        sys.exit(130)  # as after any Ctrl-C
    except OSError as error:
        # An error from a worker contains the text of its traceback.
        reason = str(error).strip().splitlines()[-1]
        raise UsageError(f'an image cannot be read, or features not be written: {reason}') from None
    print(f'wrote {out}')


if __name__ == '__main__':
    launch.exit_clearly(main)
