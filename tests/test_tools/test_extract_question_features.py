"""Test tools/extract_question_features.py as a user calls it, and training on what it writes."""

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from mmml_losses.procedures.question_features import load_text_encoder
from tests.helpers.tools import error_of, run_tool
from tests.test_datasets.test_vqa import ANSWERS, VOCABULARY, ann_file, data_root  # noqa: F401 (a fixture)

ROOT = Path(__file__).resolve().parents[2]
TOOL = 'extract_question_features.py'
# A bag of letters, for tests.
ENCODER = """
import numpy as np

def encode(texts):
    return np.array([[text.lower().count(letter) for letter in 'what is'] for text in texts], dtype=np.float32)
"""


@pytest.fixture
def folder(data_root, tmp_path, monkeypatch):  # noqa: F811
    """Make a folder with the questions below ``data``, features of their images, and an encoder."""
    home = tmp_path / 'home'
    home.mkdir()
    (home / 'data').symlink_to(data_root)
    monkeypatch.chdir(home)
    (home / 'my_encoder.py').write_text(ENCODER)
    monkeypatch.setattr(sys, 'path', list(sys.path))
    monkeypatch.delitem(sys.modules, 'my_encoder', raising=False)
    arrays = {}
    for split, name in (('train', 'train2014'), ('test', 'val2014')):
        arrays[f'{split}_ids'] = np.array([f'COCO_{name}_{number:012d}.jpg' for number in (262146, 458752)])
        arrays[f'{split}_features'] = np.array([[1, 2, 3], [4, 5, 6]], dtype=np.float16) + (split == 'test') * 10
    np.savez(home / 'images.npz', **arrays)
    return home


def extract(*arguments: str) -> None:
    run_tool(TOOL, '--encoder', 'my_encoder:encode', '--images', 'images.npz', '--out', 'vqa.npz', *arguments)


def test_a_row_has_the_features_of_the_question_and_of_its_image(folder, capsys):
    extract()
    assert 'wrote vqa.npz: 3 questions of train, 3 questions of test' in capsys.readouterr().out
    content = np.load('vqa.npz')
    counts = [1, 2, 1, 2, 2, 2, 2]  # of "w", "h", "a", "t", " ", "i" and "s" in "What is this?"
    assert content['train_features'].tolist() == [[*counts, 4, 5, 6], [*counts, 4, 5, 6], [*counts, 1, 2, 3]]
    assert content['test_features'][2].tolist() == [*counts, 11, 12, 13]
    assert content['train_ids'].tolist() == list(ANSWERS)
    assert content['classes'].tolist() == VOCABULARY
    expected = [[0, 0, 0, 1, 0], [0.6, 0.3, 0.9, 0, 1], [0] * 5]
    assert content['train_labels'] == pytest.approx(np.array(expected), abs=1e-3)
    assert content['test_labels'].tolist() == (np.array(expected) > 0).astype(int).tolist()


def test_the_written_file_trains_and_reports_the_accuracy_of_vqa(folder, capsys):
    extract()
    options = {
        'train_cfg.max_epochs': 2,
        'model.neck.in_channels': '(7,3)',
        'model.neck.out_channels': 8,
        'model.head.in_channels': 8,
        'model.head.num_classes': len(VOCABULARY),
        'val_evaluator.metrics.0.ann_file': f'data/vqa/{ann_file("val2014")}',
        **{f'{name}_dataloader.dataset.ann_file': 'vqa.npz' for name in ('train', 'val', 'test')},
    }
    arguments = [f'{key}={value}' for key, value in options.items()]
    config = ROOT / 'configs' / 'bce_vqa_features.py'
    run_tool('train.py', config, '--work-dir', 'run', '--cfg-options', *arguments)
    run_tool(
        'test.py',
        config,
        'run/epoch_2.pth',
        '--work-dir',
        'run',
        '--out',
        'metrics.json',
        '--out-item',
        'metrics',
        '--cfg-options',
        *arguments,
    )
    accuracy = json.loads(Path('metrics.json').read_text())['vqa/accuracy']
    # One of three questions has no answer among the classes.
    assert 0 <= accuracy <= 100 * 2 / 3
    assert accuracy * 3 == pytest.approx(round(accuracy * 3 / 10) * 10)  # scores are 0, 0.3, 0.6, 0.9 and 1


def test_an_interrupted_extraction_goes_on(folder, monkeypatch):
    extract()
    whole = np.load('vqa.npz')['train_features']
    calls = []

    def failing(texts):
        calls.append(len(texts))
        if len(calls) == 2:
            raise KeyboardInterrupt
        return np.ones((len(texts), 7))

    import my_encoder

    plain = my_encoder.encode
    monkeypatch.setattr(my_encoder, 'encode', failing)
    with pytest.raises(KeyboardInterrupt):
        extract('--overwrite')
    monkeypatch.setattr(my_encoder, 'encode', plain)
    extract('--overwrite')
    found = np.load('vqa.npz')['train_features']
    assert found[:, :7].tolist() == np.ones((3, 7)).tolist()  # from before the interruption
    assert found[:, 7:].tolist() == whole[:, 7:].tolist()


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        (['--encoder', 'nothing'], '--encoder must be a folder of a transformers model, or module:function'),
        (['--encoder', 'nothing:encode'], "--encoder 'nothing:encode' cannot be imported"),
        (['--encoder', 'my_encoder:decode'], "--encoder 'my_encoder:decode' cannot be imported"),
        (['--images', 'none.npz'], '--images: none.npz does not exist'),
    ],
)
def test_mistakes_are_named(folder, arguments, message):
    usual = {'--encoder': 'my_encoder:encode', '--images': 'images.npz', '--out': 'vqa.npz'}
    usual |= dict([arguments])
    assert message in error_of(TOOL, *(part for pair in usual.items() for part in pair))


def test_an_image_without_features_is_named(folder):
    np.savez('few.npz', train_ids=np.array(['COCO_train2014_000000458752.jpg']), train_features=np.ones((1, 3)))
    message = error_of(TOOL, '--encoder', 'my_encoder:encode', '--images', 'few.npz', '--out', 'vqa.npz')
    assert 'train_ids lacks COCO_train2014_000000262146.jpg' in message


@pytest.mark.skipif(importlib.util.find_spec('transformers') is not None, reason='transformers is installed')
def test_a_folder_needs_transformers(folder):
    (folder / 'model').mkdir()
    message = error_of(TOOL, '--encoder', 'model', '--images', 'images.npz', '--out', 'vqa.npz')
    assert "--encoder model needs transformers: pip install 'mmml_losses[text]'" in message


def test_a_folder_of_transformers_gives_the_mean_over_tokens(tmp_path, monkeypatch):
    """Use stand-ins of the two classes, which are called as in transformers."""
    import types

    import torch

    class Tokens(dict):
        def to(self, device):
            return self

    class Tokenizer:
        @classmethod
        def from_pretrained(cls, folder, local_files_only):
            assert local_files_only
            return cls()

        def __call__(self, texts, padding, truncation, return_tensors):
            length = max(len(text.split()) for text in texts)
            mask = torch.tensor([[int(at < len(text.split())) for at in range(length)] for text in texts])
            return Tokens(input_ids=torch.arange(1, length + 1) * torch.ones_like(mask), attention_mask=mask)

    class Model(torch.nn.Module):
        from_pretrained = classmethod(lambda cls, folder, local_files_only: cls())

        def forward(self, input_ids, attention_mask):
            return types.SimpleNamespace(last_hidden_state=input_ids.float().unsqueeze(-1).repeat(1, 1, 2))

    module = types.SimpleNamespace(AutoModel=Model, AutoTokenizer=Tokenizer)
    monkeypatch.setitem(sys.modules, 'transformers', module)
    assert load_text_encoder(str(tmp_path))(['one two three', 'one']).tolist() == [[2, 2], [1, 1]]
