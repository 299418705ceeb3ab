import json

import numpy as np
import pytest

from mmml_losses.datasets import AnnotationError, MissingDataError
from mmml_losses.datasets.label_file import SampleLabels, load_label_file, save_label_file

CLASSES = ('cat', 'car', 'person')
KEYS = ('b.jpg', 'a.jpg', 'folder/a.jpg', 'd.jpg')
SOURCE = np.array([[1, 0, 0], [0, 0, 0], [0, 1, 1], [0, 0, 1]], dtype=np.int8)
CORRECTED = np.array([[1, 0, 1], [0, 0, 0], [1, 1, 1], [0, 0, 1]], dtype=np.int8)
SAMPLES = SampleLabels(CLASSES, KEYS, SOURCE)


@pytest.fixture
def path(tmp_path):
    save_label_file(tmp_path / 'labels.json', CORRECTED, SAMPLES, dict(tool='test', threshold=0.5))
    return tmp_path / 'labels.json'


def random_labels(samples, classes, shares, seed=0):
    """Labels of which such shares are unknown, negative and positive."""
    return np.random.RandomState(seed).choice(np.array([-1, 0, 1], dtype=np.int8), (samples, classes), p=shares)


def rewrite(path, **changes):
    content = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({key: value for key, value in content.items() if value is not None}))


@pytest.mark.parametrize(
    ('shares', 'listed'),
    [
        ((0, 0.9, 0.1), {'positives'}),
        ((0, 1, 0), {'positives'}),
        ((0.1, 0.8, 0.1), {'positives', 'unknown'}),
        ((0.8, 0.1, 0.1), {'positives', 'negatives'}),
        ((1, 0, 0), {'positives', 'negatives'}),
    ],
)
def test_labels_return_as_they_were(tmp_path, shares, listed):
    labels = random_labels(20, 6, shares)
    samples = SampleLabels(tuple('abcdef'), list(map(str, range(20))), random_labels(20, 6, (0, 0.5, 0.5), seed=1))
    save_label_file(tmp_path / 'labels.json', labels, samples, {})
    restored = load_label_file(tmp_path / 'labels.json').labels_for(samples)
    assert restored.dtype == np.int8
    assert np.array_equal(restored, labels)
    content = json.loads((tmp_path / 'labels.json').read_text())
    assert content.keys() & {'positives', 'negatives', 'unknown'} == listed


def test_a_dataset_without_samples_is_no_special_case(tmp_path):
    samples = SampleLabels(CLASSES, (), np.zeros((0, 3), dtype=np.int8))
    save_label_file(tmp_path / 'labels.json', samples.labels, samples, {})
    assert load_label_file(tmp_path / 'labels.json').labels_for(samples).shape == (0, 3)


def test_the_file_says_how_it_was_made(path):
    content = json.loads(path.read_text())
    assert content['made_by'] == dict(tool='test', threshold=0.5)
    assert content['classes'] == list(CLASSES)
    assert content['positives'] == [[0, 2], [], [0, 1, 2], [2]]
    assert content['counts'] == dict(positives=6, negatives=6, unknown=0)
    assert content['source']['positives'] == 4
    assert load_label_file(path).made_by == content['made_by']


def test_the_same_labels_give_the_same_bytes(path, tmp_path):
    save_label_file(tmp_path / 'again.json', CORRECTED.astype(np.int64), SAMPLES, dict(tool='test', threshold=0.5))
    assert (tmp_path / 'again.json').read_bytes() == path.read_bytes()


def test_a_failed_write_leaves_the_old_file(path):
    before = path.read_bytes()
    with pytest.raises(TypeError):
        save_label_file(path, SOURCE, SAMPLES, dict(tool=object()))
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == ['labels.json']


@pytest.mark.parametrize(
    ('samples', 'message'),
    [
        (SampleLabels(CLASSES[:2], KEYS, SOURCE[:, :2]), 'the file has 3 classes, the dataset 2'),
        (SampleLabels(('cat', 'dog', 'person'), KEYS, SOURCE), "class 1 is 'car' in the file and 'dog' in the dataset"),
        (SampleLabels(CLASSES, KEYS[:3], SOURCE[:3]), 'the file has 4 samples, the dataset 3'),
        (SampleLabels(CLASSES, KEYS[::-1], SOURCE[::-1]), 'other images, or for the same ones in another order'),
        (SampleLabels(CLASSES, ('b.jpg', 'a.jpg', 'a.jpg', 'd.jpg'), SOURCE), 'other images'),
        (SampleLabels(CLASSES, KEYS, CORRECTED), r'other labels of the same images \(4 positives, now 6\)'),
    ],
)
def test_another_dataset_is_refused(path, samples, message):
    with pytest.raises(AnnotationError, match=rf'labels\.json does not fit the dataset: .*{message}'):
        load_label_file(path).labels_for(samples)


def test_keys_cannot_run_into_each_other():
    prints = [SampleLabels(CLASSES, keys, SOURCE[:2]).fingerprint() for keys in (('ab', 'c'), ('a', 'bc'))]
    assert prints[0] != prints[1]


def test_names_that_are_not_unicode_are_names_too():
    assert SampleLabels(CLASSES, ('\udcff.jpg',), SOURCE[:1]).fingerprint()['samples'] == 1


@pytest.mark.parametrize(
    ('changes', 'problem'),
    [
        (dict(format='mmml_losses.labels/0'), "its format is 'mmml_losses.labels/0', expected 'mmml_losses.labels/1'"),
        (dict(source=None), "it has no 'source'"),
        (dict(positives=None), "it has no 'positives'"),
        (dict(counts=None), "it has no 'counts'"),
        (dict(source=dict(samples=4)), "it has no 'positives'"),
        (dict(source=dict(samples='4', positives=4, keys_sha256='', labels_sha256='')), 'samples of its source must'),
        (dict(classes=3), 'its classes must be a list of names'),
        (dict(classes=['cat', 1, 'person']), 'its classes must be a list of names'),
        (dict(positives=[[0, 2], [], [0, 1, 2]]), 'its labels are damaged: it has 3 samples, and once had 4'),
        (dict(positives=[[0, 2], [], [0, 1], [2]]), 'its labels are damaged'),
        (dict(positives=[[0, 0], [], [0, 1, 2], [2]]), 'its labels are damaged'),
        (dict(unknown=[[0], [], [], []]), 'its labels are damaged'),
        (dict(positives=[[0, 3], [], [0, 1, 2], [2]]), 'class indices must be from 0 to 2, got 3 for sample 0'),
        (dict(positives=[[0, 2], [], [0, 1, -1], [2]]), 'class indices must be from 0 to 2, got -1 for sample 2'),
        (dict(positives=[[0, 2.0], [], [0, 1, 2], [2]]), 'class indices must be integers'),
        (dict(positives=['02', '', '012', '2']), 'class indices must be integers'),
        (dict(positives=[0, 1, 2, 3]), 'not iterable'),
    ],
)
def test_a_damaged_file_is_named_with_its_problem(path, changes, problem):
    rewrite(path, **changes)
    with pytest.raises(AnnotationError, match=rf'labels\.json is not a label file: .*{problem}'):
        load_label_file(path)


@pytest.mark.parametrize('content', [b'', b'{"format": ', b'[1, 2]', b'\x80\x04K\x01.', b'[' * 100000])
def test_a_file_of_another_kind_is_named(path, content):
    path.write_bytes(content)
    with pytest.raises(AnnotationError, match=r'labels\.json is not a label file'):
        load_label_file(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(MissingDataError, match=r'label file .*labels\.json does not exist'):
        load_label_file(tmp_path / 'labels.json')


def test_bad_arguments_are_named(tmp_path):
    with pytest.raises(ValueError, match=r"path must end with '\.json', got 'labels\.pkl'"):
        save_label_file('labels.pkl', SOURCE, SAMPLES, {})
    with pytest.raises(ValueError, match=r'labels must have the shape of the samples \(4, 3\), got \(3, 3\)'):
        save_label_file(tmp_path / 'labels.json', SOURCE[:3], SAMPLES, {})
    for value in (2, 0.5, np.nan):
        with pytest.raises(ValueError, match=r'labels must be 1 \(positive\), 0 \(negative\) or -1 \(unknown\)'):
            save_label_file(tmp_path / 'labels.json', np.full((4, 3), value), SAMPLES, {})
    assert list(tmp_path.iterdir()) == []


def test_files_of_the_size_of_coco_are_small(tmp_path):
    labels = random_labels(82081, 80, (0, 0.96, 0.04))
    samples = SampleLabels(
        tuple(map(str, range(80))), [f'COCO_train2014_{number:012d}.jpg' for number in range(82081)], labels
    )
    save_label_file(tmp_path / 'labels.json', labels, samples, {})
    restored = load_label_file(tmp_path / 'labels.json').labels_for(samples)
    assert np.array_equal(restored, labels)
    assert (tmp_path / 'labels.json').stat().st_size < 1.5e6
