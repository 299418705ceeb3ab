import re
from html.parser import HTMLParser

import numpy as np
import pytest

from mmml_losses.evaluation import (
    Predictions,
    average_precision,
    brier_score,
    calibration_errors,
    f1_scores,
    mean_average_precision,
    micro_average_precision,
    negative_log_likelihood,
    query_retrieval,
    reliability_bins,
)
from mmml_losses.visualization import write_report
from mmml_losses.visualization.page import Column


class Page(HTMLParser):
    """Tags with their attributes, and whether every tag that opens also closes."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.open = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in ('meta', 'img'):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture(scope='module')
def report(runs, tmp_path_factory):
    facts = {'Config <file>': 'a & b.py'}
    path = tmp_path_factory.mktemp('page') / 'out' / 'report.html'
    return write_report(path, runs, ['cat, -dog', 'dog'], title='A <b> & "c"', facts=facts)


def test_page_needs_no_other_file(report):
    text = report.read_text(encoding='utf-8')
    without_pictures = re.sub(r'base64,[^"]*', '', text)
    assert 'http' not in without_pictures
    assert 'url(' not in without_pictures
    page = Page(text)
    assert page.open == []
    sources = [attributes['src'] for _, attributes in page.tags if 'src' in attributes]
    assert len(sources) == 6  # reliability, histogram, classes, retrieval curve and two queries
    assert all(source.startswith('data:image/png;base64,') for source in sources)
    assert not any('href' in attributes for _, attributes in page.tags)


def test_page_is_the_only_file(report):
    assert [path.name for path in report.parent.iterdir()] == ['report.html']


def test_every_text_is_escaped(report):
    text = report.read_text(encoding='utf-8')
    assert '<script' not in text
    assert '<i>' not in text
    assert '&lt;script&gt;alert(1)&lt;/script&gt;' in text
    assert '<title>A &lt;b&gt; &amp; &quot;c&quot;</title>' in text
    assert '<dt>Config &lt;file&gt;</dt><dd>a &amp; b.py</dd>' in text


def test_page_suits_screen_readers(report):
    page = Page(report.read_text(encoding='utf-8'))
    assert ('html', {'lang': 'en'}) in page.tags
    assert all(attributes.get('alt') for tag, attributes in page.tags if tag == 'img')
    assert all('scope' in attributes for tag, attributes in page.tags if tag == 'th')
    assert sum(tag == 'figcaption' for tag, _ in page.tags) == 6


def cells_of(text, heading):
    """Return the rows of the table under a heading, each as the texts of its cells by column."""
    section = text.split(f'<h2>{heading}</h2>')[1].split('</section>')[0]
    columns = [column.split('<')[0] for column in re.findall(r'<th scope="col">(.*?)</th>', section)][1:]
    rows = re.findall(r'<tr><th scope="row">.*?</th>(.*?)</tr>', section)
    plain = [re.sub('</?strong>', '', row) for row in rows]
    return [dict(zip(columns, re.findall('<td>(.*?)</td>', row), strict=True)) for row in plain]


def test_tables_hold_the_measures(report, runs):
    text = report.read_text(encoding='utf-8')
    ranking, decisions = cells_of(text, 'Ranking'), cells_of(text, 'Decisions')
    calibration = cells_of(text, 'Do the probabilities mean what they say?')
    retrieval = cells_of(text, 'Finding images by what they show and what they do not')
    for row, run in enumerate(runs.values()):
        data = run.scores, run.labels
        f1, errors, found = f1_scores(*data), calibration_errors(reliability_bins(*data)), query_retrieval(*data)
        assert ranking[row] == {
            'mAP@class': f'{100 * mean_average_precision(*data).value:.2f}',
            'mAP@sample': f'{100 * mean_average_precision(*data, by="sample").value:.2f}',
            'micro AP': f'{100 * micro_average_precision(*data):.2f}',
        }
        values = dict(CP=f1.cp, CR=f1.cr, CF1=f1.cf1, MF1=f1.macro_f1, OP=f1.op, OR=f1.or_, OF1=f1.of1)
        assert decisions[row] == {name: f'{100 * value:.2f}' for name, value in values.items()}
        assert calibration[row] == {
            **{name.upper(): f'{100 * value:.2f}' for name, value in errors._asdict().items()},
            'Brier': f'{100 * brier_score(*data):.2f}',
            'NLL': f'{negative_log_likelihood(*data):.4f}',
        }
        assert retrieval[row]['overall'] == f'{100 * found.overall.value:.2f}'
        assert retrieval[row]['2 conditions'] == f'{100 * found.by_conditions[2].value:.2f}'
    assert f'Exhaustive: all {found.overall.num_evaluated} queries that have an answer.' in text


def test_sampled_retrieval_is_named_in_the_caption(tmp_path, monkeypatch):
    monkeypatch.setattr('mmml_losses.visualization.report.MOST_QUERIES', 300)
    rng = np.random.default_rng(0)
    labels = (rng.random((30, 20)) < 0.4).astype(np.int8)
    run = Predictions(np.clip(0.3 * labels + 0.7 * rng.random(labels.shape), 0, 1), labels)
    page = write_report(tmp_path / 'report.html', {'run': run}, max_conditions=2).read_text(encoding='utf-8')
    sampled = re.search(r'Sampled: ([\d,]+) of about ([\d,]+) queries .* at most ± \d\.\d\d', page)
    evaluated, existing = (int(number.replace(',', '')) for number in sampled.groups())
    assert evaluated <= 300 < existing <= 20 + 190 * 3


def test_frequencies_bring_head_medium_and_tail(runs, tmp_path):
    path = write_report(tmp_path / 'report.html', runs, class_frequencies=[500, 50, 200, 5], max_conditions=0)
    text = path.read_text(encoding='utf-8')
    precisions = average_precision(*[getattr(next(iter(runs.values())), name) for name in ('scores', 'labels')])
    row = cells_of(text, 'Ranking')[0]
    assert row['head'] == f'{100 * precisions[[0, 2]].mean():.2f}'
    assert row['medium'] == f'{100 * precisions[1]:.2f}'
    assert row['tail'] == f'{100 * precisions[3]:.2f}'
    assert '(number of classes: head 2, medium 1, tail 1)' in text
    with pytest.raises(ValueError, match='entry for each of 4 classes, got 1'):
        write_report(tmp_path / 'other.html', runs, class_frequencies=[500])
    assert not (tmp_path / 'other.html').exists()


def test_label_recovery_is_shown_by_epoch(runs, tmp_path):
    curves = {'SPLC <b>': {'precision': {1: 50.0, 2: 61.5}, 'recall': {1: 5.0, 2: 8.25}, 'num_hidden': {1: 70}}}
    text = write_report(tmp_path / 'report.html', runs, label_recovery=curves, max_conditions=0).read_text(
        encoding='utf-8'
    )
    assert cells_of(text, 'Hidden labels found again') == [{'precision': '61.50', 'recall': '8.25'}]
    assert 'SPLC &lt;b&gt;' in text
    assert Page(text).open == []


def test_missing_labels_are_counted(tmp_path):
    run = Predictions([[0.9, 0.6], [0.2, 0.4]], [[1, 0], [0, 0]], true_labels=[[1, 1], [0, 1]])
    text = write_report(tmp_path / 'report.html', {'run': run}).read_text(encoding='utf-8')
    assert '<dt>Missing labels</dt><dd>2 positive in truth' in text
    assert 'positive, negative and missing labels' in text


@pytest.mark.parametrize(
    ('scores', 'labels'),
    [
        (np.zeros((0, 3)), np.zeros((0, 3))),
        (np.full((2, 2), 0.5), np.full((2, 2), -1)),
        (np.full((2, 2), 0.5), np.zeros((2, 2))),
        (np.full((1, 1), 1.0), np.ones((1, 1))),
    ],
    ids=['no samples', 'all unknown', 'no positives', 'one label'],
)
def test_thin_data_still_makes_a_page(tmp_path, scores, labels):
    text = write_report(tmp_path / 'report.html', {'run': Predictions(scores, labels)}).read_text(encoding='utf-8')
    assert Page(text).open == []


def test_best_of_each_column_is_bold():
    assert Column('mAP', [1.0, 3.0, float('nan')], best=max).cells() == ['1.00', '<strong>3.00</strong>', 'n/a']
    assert Column('ACE', [1.0, 3.0, 1.001], best=min).cells() == [
        '<strong>1.00</strong>',
        '3.00',
        '<strong>1.00</strong>',
    ]
    assert Column('ACE', [1.0], best=min).cells() == ['1.00']
    assert Column('NLL', [0.12344, 0.12351], best=min, digits=4).cells() == ['<strong>0.1234</strong>', '0.1235']


def test_second_report_replaces_the_first(report, runs, tmp_path):
    path = tmp_path / 'report.html'
    path.write_bytes(report.read_bytes())
    write_report(path, runs, max_conditions=0)
    before, after = (file.read_text(encoding='utf-8') for file in (report, path))
    assert len(re.findall('<figure', before)) == 6
    assert len(re.findall('<figure', after)) == 3
    assert [file.name for file in tmp_path.iterdir()] == ['report.html']


def test_runs_on_different_data_are_rejected(tmp_path):
    one = Predictions(np.full((2, 2), 0.5), [[0, 1], [1, 0]])
    other = Predictions(np.full((2, 2), 0.5), [[0, 1], [1, 1]])
    with pytest.raises(ValueError, match="same data, but the labels of 'b' and 'a' differ"):
        write_report(tmp_path / 'report.html', {'a': one, 'b': other})
    with pytest.raises(ValueError, match='runs must hold at least one run, got none'):
        write_report(tmp_path / 'report.html', {})
    assert list(tmp_path.iterdir()) == []


def test_misspelt_query_stops_before_anything_is_written(runs, tmp_path):
    with pytest.raises(ValueError, match="unknown class 'dogg': did you mean 'dog'"):
        write_report(tmp_path / 'report' / 'report.html', runs, ['dogg'])
    assert not (tmp_path / 'report').exists()
