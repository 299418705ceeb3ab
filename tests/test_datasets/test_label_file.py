import json

import numpy as np
import pytest

from mmml_losses.datasets import AnnotationError, MissingDataError
from mmml_losses.datasets.labels import label_file
from mmml_losses.datasets.labels.label_file import load_label_file, save_label_file
from mmml_losses.datasets.labels.sample_labels import SampleLabels

CLASSES = ('cat', 'car', 'person')
KEYS = ('b.jpg', 'a.jpg', 'folder/a.jpg', 'd.jpg')
SOURCE = np.array([[1, 0, 0], [0, 0, 0], [0, 1, 1], [0, 0, 1]], dtype=np.int8)
CORRECTED = np.array([[1, 0, 1], [0, 0, 0], [1, 1, 1], [0, 0, 1]], dtype=np.int8)
SAMPLES = SampleLabels(CLASSES, KEYS, SOURCE)
SOURCE_ENTRY = dict(samples=4, positives=4, keys_sha256='', sorted_keys_sha256='', labels_sha256='')
# Of the file that the fixture writes.
CHECKSUM = '70e879562087caf377c4b8a1fe58d493b27e4a0b60096b97536aa52f7f4bae15'


@pytest.fixture
def path(tmp_path):
    save_label_file(tmp_path / 'labels.json', CORRECTED, SAMPLES, dict(tool='test', threshold=0.5))
    return tmp_path / 'labels.json'


def random_labels(samples, classes, shares, seed=0):
    """Labels of which such shares are unknown, negative and positive."""
    return np.random.RandomState(seed).choice(np.array([-1, 0, 1], dtype=np.int8), (samples, classes), p=shares)


def restored(path, samples):
    """Return the labels of a file that must fit."""
    file = load_label_file(path)
    file.check_fit(samples)
    return file.labels


def rewrite(path, **changes):
    content = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({key: value for key, value in content.items() if value is not None}, indent=1))


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
    assert restored(tmp_path / 'labels.json', samples).dtype == np.int8
    assert np.array_equal(restored(tmp_path / 'labels.json', samples), labels)
    content = json.loads((tmp_path / 'labels.json').read_text())
    assert content.keys() & {'positives', 'negatives', 'unknown'} == listed


@pytest.mark.parametrize('shape', [(20, 6), (3, 7), (5, 8)])
@pytest.mark.parametrize('value', [-1, 0])
def test_many_labels_that_are_no_positives_are_bits(tmp_path, shape, value):
    samples = SampleLabels(tuple(map(str, range(shape[1]))), list(map(str, range(shape[0]))), np.zeros(shape, np.int8))
    labels = random_labels(*shape, (0.3, 0.6, 0.1) if value == -1 else (0.6, 0.3, 0.1))
    labels[0, 0] = -1
    save_label_file(tmp_path / 'labels.json', labels, samples, {})
    assert np.array_equal(restored(tmp_path / 'labels.json', samples), labels)
    content = json.loads((tmp_path / 'labels.json').read_text())
    name = (content.keys() & {'unknown', 'negatives'}).pop()
    kept = content[name]
    for bits in (kept[:-4], kept + 'AAAA', kept[:-4] + '????', 'A' + kept):
        rewrite(tmp_path / 'labels.json', **{name: bits})
        with pytest.raises(AnnotationError, match=r'labels\.json is not a label file: '):
            load_label_file(tmp_path / 'labels.json')


def test_a_dataset_without_samples_is_no_special_case(tmp_path):
    samples = SampleLabels(CLASSES, (), np.zeros((0, 3), dtype=np.int8))
    save_label_file(tmp_path / 'labels.json', samples.labels, samples, {})
    assert restored(tmp_path / 'labels.json', samples).shape == (0, 3)


def test_the_file_records_how_it_was_made(path):
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
    # On every machine: if this changes, files that others have are no longer read, and the format needs a new number.
    assert label_file.FORMAT == 'mmml_losses.labels/2'
    assert json.loads(path.read_bytes())['content_sha256'] == CHECKSUM


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
        (SampleLabels(CLASSES, KEYS[:3], SOURCE[:3]), 'the file was made for 4 samples, the dataset has 3'),
        (SampleLabels(CLASSES, KEYS[::-1], SOURCE[::-1]), 'for the same images in another order'),
        (SampleLabels(CLASSES, ('b.jpg', 'a.jpg', 'a.jpg', 'd.jpg'), SOURCE), 'for other images'),
        (SampleLabels(CLASSES, KEYS, CORRECTED), r'other labels of the same images \(4 positives, now 6\)'),
    ],
)
def test_another_dataset_is_rejected(path, samples, message):
    with pytest.raises(AnnotationError, match=rf'labels\.json does not fit the dataset: .*{message}'):
        load_label_file(path).check_fit(samples)


def test_keys_cannot_run_into_each_other():
    prints = [SampleLabels(CLASSES, keys, SOURCE[:2]).fingerprint() for keys in (('ab', 'c'), ('a', 'bc'))]
    assert prints[0] != prints[1]


def test_names_that_are_not_unicode_are_names_too():
    assert SampleLabels(CLASSES, ('\udcff.jpg',), SOURCE[:1]).fingerprint()['samples'] == 1


@pytest.mark.parametrize(
    ('changes', 'problem'),
    [
        (dict(format='mmml_losses.labels/1'), "its format is 'mmml_losses.labels/1', expected 'mmml_losses.labels/2'"),
        (dict(source=None), "it has no 'source'"),
        (dict(positives=None), "it has no 'positives'"),
        (dict(counts=None), "it has no 'counts'"),
        (dict(source=dict(samples=4)), "it has no 'positives'"),
        (dict(source=dict(samples='4')), 'samples of its source must be int'),
        (dict(source=dict(samples=4, positives=4)), "it has no 'keys_sha256'"),
        (dict(content_sha256=None), "it has no 'content_sha256'"),
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
        (dict(positives='0123'), 'class indices must be integers'),
        (dict(positives=4), 'has no len'),
        (dict(source=SOURCE_ENTRY | dict(samples=10**12)), 'it has 4 samples, and once had 1000000000000'),
        (dict(selected=[0, 1, 2]), 'its labels are damaged: it has 4 samples, and once had 3'),
        (dict(selected=[0, 1, 2, 4]), 'its selected must be positions from 0 to 3, got 4'),
        (dict(selected=[0, 1, 2, -1]), 'its selected must be positions from 0 to 3, got -1'),
        (dict(selected=[0, 1, 2, 2.5]), 'its selected must be a list of positions'),
        (dict(selected=[[0], [1], [2], [3]]), 'its selected must be a list of positions'),
        (dict(selected=3), 'its selected must be a list of positions'),
    ],
)
def test_a_damaged_file_is_named_with_its_problem(path, changes, problem):
    rewrite(path, **changes)
    with pytest.raises(AnnotationError, match=rf'labels\.json is not a label file: .*{problem}'):
        load_label_file(path)


@pytest.mark.parametrize(
    'changes',
    [
        dict(positives=[[0, 1], [], [0, 1, 2], [2]]),
        dict(positives=[[0, 2], [2], [0, 1, 2], []]),
        dict(classes=['cat', 'dog', 'person']),
        dict(made_by=dict(tool='test', threshold=0.4)),
        dict(selected=[0, 1, 2, 3]),
        dict(content_sha256='0' * 64),
        dict(note='mine'),
    ],
)
def test_no_change_by_hand_goes_unnoticed(path, changes):
    rewrite(path)
    assert load_label_file(path).made_by['tool'] == 'test'  # another layout of the same content is none
    rewrite(path, **changes)
    with pytest.raises(AnnotationError, match=r'labels\.json is not a label file: it was changed after it was written'):
        load_label_file(path)


def test_a_part_of_the_samples_in_any_order(tmp_path):
    for selected in ([2, 0], [3, 3, 1], [], np.array([1])):
        labels = CORRECTED[np.asarray(selected, dtype=np.int64)]
        save_label_file(tmp_path / 'labels.json', labels, SAMPLES, {}, selected)
        file = load_label_file(tmp_path / 'labels.json')
        file.check_fit(SAMPLES)
        assert file.selected.tolist() == list(selected)
        assert np.array_equal(file.labels, labels)
        # The whole dataset must be the one it was made for, not only that part.
        with pytest.raises(AnnotationError, match='does not fit the dataset: the file was made for 4 samples'):
            file.check_fit(SampleLabels(CLASSES, KEYS[:3], SOURCE[:3]))


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
    with pytest.raises(ValueError, match=r'labels must have the shape of the samples \(2, 3\), got \(3, 3\)'):
        save_label_file(tmp_path / 'labels.json', SOURCE[:3], SAMPLES, {}, selected=[0, 1])
    with pytest.raises(ValueError, match='selected must be positions from 0 to 3, got 4'):
        save_label_file(tmp_path / 'labels.json', SOURCE[:1], SAMPLES, {}, selected=[4])
    for value in (2, 0.5, np.nan):
        with pytest.raises(ValueError, match=r'labels must be 1 \(positive\), 0 \(negative\) or -1 \(unknown\)'):
            save_label_file(tmp_path / 'labels.json', np.full((4, 3), value), SAMPLES, {})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(('shares', 'limit'), [((0, 0.96, 0.04), 1.5e6), ((0.5, 0.48, 0.02), 2e6)])
def test_files_of_the_size_of_coco_are_small(tmp_path, shares, limit):
    labels = random_labels(82081, 80, shares)
    samples = SampleLabels(
        tuple(map(str, range(80))), [f'COCO_train2014_{number:012d}.jpg' for number in range(82081)], labels
    )
    save_label_file(tmp_path / 'labels.json', labels, samples, {})
    assert np.array_equal(restored(tmp_path / 'labels.json', samples), labels)
    assert (tmp_path / 'labels.json').stat().st_size < limit
