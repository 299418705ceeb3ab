"""Write features of VQA v2: ``python tools/extract_question_features.py --encoder FOLDER --images IMAGES.npz``.

A row of the file is a question: the features of its text, by an encoder that you name, and those of its image, from
tools/extract_features.py. configs/bce_vqa_features.py trains on the file. The same command resumes.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import cast

from mmml_losses.cli import launch
from mmml_losses.cli.losses import configs_folder
from mmml_losses.datasets import VQASoftAnswers
from mmml_losses.engine.config_data import load_dataset
from mmml_losses.engine.resuming import flat_settings
from mmml_losses.procedures.question_features import load_text_encoder, write_question_features
from mmml_losses.utils.errors import UsageError


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description='Write features of the questions and images of VQA v2')
    parser.add_argument(
        '--encoder',
        required=True,
        metavar='FOLDER_OR_FUNCTION',
        help='folder of a Hugging Face transformers model, or module:function, a function from a list of texts to an '
        'array (n, D)',
    )
    parser.add_argument(
        '--images', required=True, metavar='FILE.npz', help='features of the images, of tools/extract_features.py'
    )
    parser.add_argument(
        '--config',
        default=str(configs_folder() / '_base_' / 'datasets' / 'vqa_v2.py'),
        help='config with the datasets of questions (default: _base_/datasets/vqa_v2.py)',
    )
    parser.add_argument(
        '--out', default='data/vqa_features.npz', metavar='FILE.npz', help='file to write (default: %(default)s)'
    )
    parser.add_argument('--overwrite', action='store_true', help='replace the file if there is one')
    parser.add_argument('--device', default='cpu', help='where the model of a folder runs (default: cpu)')
    launch.add_cfg_options(parser, 'test_dataloader.dataset.answer_file=vqa/answers.json')
    return parser.parse_args()


def read_questions(args: argparse.Namespace, name: str) -> VQASoftAnswers:
    cfg = launch.read_config(args.config, args.cfg_options)
    cfg[f'{name}_dataloader'].dataset.pipeline = []  # no image is loaded
    dataset = load_dataset(cfg, name, args.config)
    if not isinstance(dataset, VQASoftAnswers):
        raise UsageError(f'{args.config} must have datasets of VQASoftAnswers, got {type(dataset).__name__}')
    return dataset


def main() -> None:
    args = parse_args()
    out = launch.check_output(Path(args.out).expanduser(), '.npz', args.overwrite)
    launch.make_folder(out)
    if not Path(args.images).is_file():
        raise UsageError(f'--images: {args.images} does not exist; tools/extract_features.py writes it')
    sys.path.append(str(Path.cwd()))  # where a function of one's own may be
    encode = load_text_encoder(args.encoder, args.device)
    splits = {name: read_questions(args, name) for name in ('train', 'test')}
    cfg = launch.read_config(args.config, args.cfg_options)
    datasets = {name: cast('dict', cfg[f'{name}_dataloader'].dataset) for name in splits}
    settings = flat_settings(
        dict(encoder=args.encoder, images=f'{args.images}, {Path(args.images).stat().st_size} bytes', **datasets)
    )
    write_question_features(out, splits, args.images, encode, settings)
    print(f'wrote {out}: {", ".join(f"{len(questions):,} questions of {name}" for name, questions in splits.items())}')


if __name__ == '__main__':
    launch.exit_clearly(main)
