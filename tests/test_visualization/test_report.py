import re
from html.parser import HTMLParser

import numpy as np
import pytest

from mmml_losses.evaluation import Predictions, mean_average_precision
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


@pytest.fixture
def report(runs, tmp_path):
    facts = {'Config <file>': 'a & b.py'}
    return write_report(tmp_path / 'out' / 'report.html', runs, ['cat, -dog', 'dog'], title='A <b> & "c"', facts=facts)


def test_page_needs_no_other_file(report):
    text = report.read_text(encoding='utf-8')
    without_pictures = re.sub(r'base64,[^"]*', '', text)
    assert 'http' not in without_pictures
    assert 'url(' not in without_pictures
    page = Page(text)
    assert page.open == []
    sources = [attributes['src'] for _, attributes in page.tags if 'src' in attributes]
    assert len(sources) == 3
    assert all(source.startswith('data:image/png;base64,') for source in sources)
    assert not any('href' in attributes for _, attributes in page.tags)


def test_pictures_also_lie_beside_the_page(report):
    names = sorted(path.name for path in report.parent.iterdir())
    assert names == ['reliability.png', 'report.html', 'retrieval_1.png', 'retrieval_2.png']
    assert (report.parent / 'reliability.png').read_bytes().startswith(b'\x89PNG')


def test_every_text_is_escaped(report):
    text = report.read_text(encoding='utf-8')
    assert '<script' not in text
    assert '<i>' not in text
    assert '&lt;script&gt;alert(1)&lt;/script&gt;' in text
    assert '<title>A &lt;b&gt; &amp; &quot;c&quot;</title>' in text
    assert '<dt>Config &lt;file&gt;</dt><dd>a &amp; b.py</dd>' in text


def test_page_reads_well_aloud(report):
    page = Page(report.read_text(encoding='utf-8'))
    assert ('html', {'lang': 'en'}) in page.tags
    assert all(attributes.get('alt') for tag, attributes in page.tags if tag == 'img')
    assert all('scope' in attributes for tag, attributes in page.tags if tag == 'th')
    assert sum(tag == 'figcaption' for tag, _ in page.tags) == 3


def test_table_holds_the_measures(report, runs):
    text = report.read_text(encoding='utf-8')
    for run in runs.values():
        assert f'{100 * mean_average_precision(run.scores, run.labels).value:.2f}' in text


def test_best_of_each_column_is_bold():
    assert Column('mAP', [1.0, 3.0, float('nan')], best=max).cells() == ['1.00', '<strong>3.00</strong>', 'n/a']
    assert Column('ACE', [1.0, 3.0, 1.001], best=min).cells() == [
        '<strong>1.00</strong>',
        '3.00',
        '<strong>1.00</strong>',
    ]
    assert Column('ACE', [1.0], best=min).cells() == ['1.00']


def test_second_report_replaces_the_first(report, runs):
    before = report.read_text(encoding='utf-8')
    write_report(report, runs, ['dog'])
    after = report.read_text(encoding='utf-8')
    assert before != after
    assert len(re.findall('<figure', after)) == 2


def test_runs_on_different_data_are_refused(tmp_path):
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
