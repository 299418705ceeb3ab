"""Annotation files of other people: what cannot be read is named with the file and the place."""

import pytest

from mmml_losses.datasets import AnnotationError
from mmml_losses.datasets.readers.annotation_files import read_csv, read_json, read_lines, reject_repeated


@pytest.fixture
def file(tmp_path):
    """Write a file and return its path."""

    def write(content: str | bytes):
        path = tmp_path / 'labels.txt'
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def test_json_of_the_asked_kind_is_read(file):
    assert read_json(file('{"a": [1]}'), dict) == dict(a=[1])
    assert read_json(file('[1, 2]'), list) == [1, 2]


@pytest.mark.parametrize(
    ('content', 'problem'),
    [('{"a": [1', 'is not a json file'), ('', 'is not a json file'), (b'\xff\xfe{', 'is not a json file'),
     ('[1]', 'must hold a dict, got a list'), ('[' * 100_000, 'is not a json file')],
)  # fmt: skip
def test_other_json_is_rejected(file, content, problem):
    with pytest.raises(AnnotationError, match=rf'labels\.txt {problem}'):
        read_json(file(content), dict)


def test_lines_have_numbers_and_blank_ones_are_skipped(file):
    assert list(read_lines(file('\ufeffone \r\n\n  two\n'))) == [(1, 'one'), (3, 'two')]
    with pytest.raises(AnnotationError, match=r'labels\.txt is not a text file in UTF-8'):
        list(read_lines(file(b'one\n\xff\xfe\n')))


def test_columns_are_found_by_name(file):
    content = '\ufeffImageID,Source,LabelName\nabc,"by hand, twice",/m/01\n\nxyz,machine,/m/02,extra\n'
    assert list(read_csv(file(content), ['LabelName', 'ImageID'])) == [(2, ('/m/01', 'abc')), (4, ('/m/02', 'xyz'))]


@pytest.mark.parametrize(
    ('content', 'problem'),
    [('', ' must have the columns a, b, got an empty file'), ('a,c\n1,2\n', ' must have the columns a, b, got a, c'),
     ('a,b\n1,2\n3\n', ', line 3: a row must have 2 columns, got 1'), (b'a,b\n\xff,2\n', ' is not a csv file'),
     ('a,b\n' + '1' * 200_000 + ',2\n', ' is not a csv file')],
)  # fmt: skip
def test_other_tables_are_rejected(file, content, problem):
    with pytest.raises(AnnotationError, match=rf'labels\.txt{problem}'):
        list(read_csv(file(content), ['a', 'b']))


def test_what_appears_twice_is_named():
    reject_repeated([1, 2, 3], 'images.txt', 'image id')
    with pytest.raises(AnnotationError, match=r"images\.txt has the image 'b' more than once"):
        reject_repeated(['a', 'b', 'b'], 'images.txt', 'image')
