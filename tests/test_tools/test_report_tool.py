"""Test tools/report.py as a user calls it."""

import json
import re

import numpy as np
import pytest
from PIL import Image

from mmml_losses.evaluation import Predictions, mean_average_precision, save_predictions
from tests.helpers.tools import run_tool


@pytest.fixture
def runs(tmp_path):
    """Write the work folders of two runs on the same data, the second with a log of label recovery."""
    rng = np.random.default_rng(0)
    labels = (rng.random((20, 3)) < 0.5).astype(np.int8)
    paths = [str(tmp_path / f'{index}.png') for index in range(20)]
    for path in paths:
        Image.fromarray(rng.integers(0, 255, (8, 8), dtype=np.uint8)).save(path)
    for name in ('one', 'two'):
        scores = np.clip(0.4 * labels + 0.6 * rng.random(labels.shape), 0, 1)
        predictions = Predictions(scores, labels, ('cat', 'dog', 'cow'), paths)
        save_predictions(tmp_path / name / 'predictions.npz', predictions)
    log = tmp_path / 'two' / '20260101_000000' / 'vis_data' / 'scalars.json'
    log.parent.mkdir(parents=True)
    log.write_text(json.dumps({'label_recovery/precision': 87.5, 'label_recovery/recall': 12.25, 'step': 1}) + '\n')
    return [f'The <first>={tmp_path / "one"}', str(tmp_path / 'two')]


@pytest.fixture
def report(capsys, tmp_path):
    """Return a function that calls the tool in this process and returns the page."""

    def call(*arguments, out=tmp_path / 'out' / 'report.html'):
        run_tool('report.py', *arguments, '--out', out)
        assert f'wrote {out}' in capsys.readouterr().out
        return out.read_text(encoding='utf-8')

    return call


def test_report_joins_tables_and_pictures_in_one_file(report, runs, tmp_path):
    frequencies = tmp_path / 'frequencies.json'
    frequencies.write_text('[500, 50, 5]')
    text = report(*runs, '--query', 'cat, -dog', '--query', 'dog', '--frequencies', frequencies, '--title', 'Two & two')
    assert '<h1>Two &amp; two</h1>' in text
    assert 'The &lt;first&gt;' in text
    assert '<first>' not in text
    sources = re.findall(r'src="([^"]*)"', text)
    assert len(sources) == 7  # reliability, histogram, classes, retrieval, two queries, label recovery
    assert all(source.startswith('data:image/png;base64,') for source in sources)
    assert not re.search(r'https?:|href=|url\(|<script|<link', re.sub(r'base64,[^"]*', '', text))
    headings = re.findall('<h2>(.*?)</h2>', text)
    assert {'Ranking', 'Decisions', 'Query: cat, not dog', 'Query: dog', 'Hidden labels found again'} <= set(headings)
    assert all(f'<th scope="col">{name}<' in text for name in ('head', 'medium', 'tail', 'OF1', 'ECE', '3 conditions'))
    for value in ('87.50', '12.25'):
        assert f'<td>{value}</td>' in text
    with np.load(tmp_path / 'two' / 'predictions.npz') as file:
        assert f'{100 * mean_average_precision(file["scores"], file["labels"]).value:.2f}' in text
    assert [file.name for file in (tmp_path / 'out').iterdir()] == ['report.html']


def test_one_run_is_enough(report, runs):
    text = report(runs[0], '--max-conditions', '0')
    assert 'Finding images' not in text
    assert 'Hidden labels found again' not in text
    assert '<strong>' not in text  # nothing to be better than


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        (['nowhere'], r'nowhere/predictions\.npz does not exist; this makes it: python tools/test\.py'),
        (['{run}', '--query', 'dogg'], "unknown class 'dogg': did you mean 'dog'"),
        (['{run}', '--frequencies', '{run}'], 'cannot be read: Is a directory'),
        (['{run}', '--top', '0', '--query', 'dog'], 'top must be at least 1, got 0'),
        (['{run}', '{other}'], "same data, but the numbers of images, 2 and 20, of 'other' and 'two' differ"),
        (['{run}', '{names}'], "same data, but the class names of 'names' and 'two' differ"),
        (['{run}', '{labels}'], "same data, but the labels of 'labels' and 'two' differ"),
        (['{run}', '--max-conditions', '-1'], 'max_conditions must be at least 1, got -1'),
    ],
)
def test_bad_calls_write_nothing(report, runs, tmp_path, arguments, message):
    names = ('cat', 'dog', 'cow')
    others = dict(
        other=Predictions(np.full((2, 3), 0.5), np.zeros((2, 3)), names),
        names=Predictions(np.full((20, 3), 0.5), np.zeros((20, 3)), ('cat', 'dog', 'hen')),
        labels=Predictions(np.full((20, 3), 0.5), np.zeros((20, 3)), names),
    )
    for name, predictions in others.items():
        save_predictions(tmp_path / f'{name}.npz', predictions)
    places = dict(run=runs[1], **{name: tmp_path / f'{name}.npz' for name in others})
    with pytest.raises(SystemExit, match=message):
        report(*(argument.format(**places) for argument in arguments))
    assert not (tmp_path / 'out').exists()


def test_the_page_must_be_html(report, runs, capsys, tmp_path):
    with pytest.raises(SystemExit):
        report(runs[0], out=tmp_path / 'report.pdf')
    assert '--out must end in .html, got' in capsys.readouterr().err
