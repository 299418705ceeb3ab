import copy
import io
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
from mmengine.dataset import ClassBalancedDataset, ConcatDataset
from mmengine.registry import DATASETS as MMENGINE_DATASETS
from torch.utils.data import DataLoader

from benchmarks import features as benchmark
from mmml_losses.datasets import (
    AnnotationError,
    FeatureDataset,
    MissingDataError,
    SinglePositive,
    StoredLabels,
)
from mmml_losses.datasets.readers import feature_dataset
from mmml_losses.datasets.readers.feature_dataset import feature_statistics
from mmml_losses.utils import files
from mmml_losses.utils.files import FeatureFile

CLASSES = ('cat', 'dog', 'car', 'tree')
LABELS = np.array([[1, 0, 0, 1], [0, 0, 0, 0], [0, 1, 0, 0], [1, 1, 1, 0], [0, 0, 1, 0]], dtype=np.uint8)
FEATURES = np.random.default_rng(0).normal(3, 2, (5, 6)).astype(np.float16)


def content(**changes) -> dict:
    arrays = dict(
        train_features=FEATURES, train_labels=LABELS, train_ids=np.array([7, 3, 9, 4, 1]), classes=np.array(CLASSES)
    )
    return {name: array for name, array in (arrays | changes).items() if array is not None}


@pytest.fixture
def write(tmp_path):
    """Write a feature file with some arrays changed, or left out, and return its path."""

    def write_file(save=np.savez, **changes) -> str:
        path = str(tmp_path / 'features.npz')
        save(path, **content(**changes))
        return path

    return write_file


def labels_of(dataset) -> list[list[int]]:
    return [dataset.get_data_info(idx)['gt_label'] for idx in range(len(dataset))]


def test_a_sample_has_its_features_labels_and_id(write):
    dataset = FeatureDataset(write(), split='train')
    assert dataset.CLASSES == CLASSES
    assert labels_of(dataset) == [[0, 3], [], [1], [0, 1, 2], [2]]
    item = dataset[3]
    features = item.pop('features')
    assert item == dict(gt_label=[0, 1, 2], img_id=4, sample_name='4', sample_idx=3)
    assert np.array_equal(features, FEATURES[3])
    assert features.dtype == np.float16
    assert dataset.get_cat_ids(3) == [0, 1, 2]


def test_arrays_may_have_any_names(write):
    path = write(train_40=LABELS * 0, extra=np.array(3.5))
    names = dict(features='train_features', labels='train_40', ids='train_ids', classes='classes')
    assert labels_of(FeatureDataset(path, **names)) == [[]] * 5
    assert labels_of(FeatureDataset(path, split='train', labels='train_40')) == [[]] * 5


def test_a_file_needs_neither_ids_nor_classes(tmp_path):
    np.savez(tmp_path / 'plain.npz', features=FEATURES.astype(np.float32), labels=LABELS.astype(bool))
    dataset = FeatureDataset('plain.npz', data_root=str(tmp_path))
    assert dataset.CLASSES == ('0', '1', '2', '3')
    info = dataset.get_data_info(-1)
    assert 'img_id' not in info
    assert (info['sample_name'], info['gt_label']) == ('4', [2])


@pytest.mark.parametrize('mostly_unknown', [True, False])
def test_unknown_labels_are_in_the_score_of_every_sample(write, mostly_unknown):
    labels = LABELS.astype(np.int8)
    labels[:, 1:3] = -1
    if mostly_unknown:
        labels[:, 3] = -1
    dataset = FeatureDataset(write(train_labels=labels), split='train')
    scores = np.stack([dataset.get_data_info(idx)['gt_score'] for idx in range(5)])
    assert scores.dtype == np.float32
    assert np.array_equal(scores, labels)
    assert labels_of(dataset) == [np.flatnonzero(row == 1).tolist() for row in labels]


def test_soft_labels_stay_soft(write):
    labels = LABELS * np.float32(0.25)
    labels[1, 2] = -1
    dataset = FeatureDataset(write(train_labels=labels), split='train')
    assert np.array_equal(np.stack([dataset.get_data_info(idx)['gt_score'] for idx in range(5)]), labels)
    assert labels_of(dataset)[0] == [0, 3]
    hard = FeatureDataset(write(train_labels=LABELS.astype(np.float64)), split='train')
    assert 'gt_score' not in hard.get_data_info(0)


def test_metainfo_chooses_and_orders_classes(write):
    dataset = FeatureDataset(write(), split='train', metainfo=dict(classes=['tree', 'cat']), drop_empty=True)
    assert labels_of(dataset) == [[0, 1], [1]]
    assert [dataset.get_data_info(idx)['img_id'] for idx in range(2)] == [7, 4]
    assert np.array_equal(dataset[1]['features'], FEATURES[3])
    with pytest.raises(ValueError, match=r'classes in metainfo must be classes of .*features\.npz, got lion'):
        FeatureDataset(write(), split='train', metainfo=dict(classes=['lion']))


def test_what_a_pipeline_does_to_features_leaves_the_file_alone(write):
    def scale(info):
        info['features'] *= 2
        return info

    path = write()
    dataset = FeatureDataset(path, split='train', pipeline=[scale])
    assert np.array_equal(dataset[0]['features'], 2 * FEATURES[0])
    assert np.array_equal(dataset[0]['features'], 2 * FEATURES[0])
    with pytest.raises(ValueError, match='read-only'):
        dataset.get_data_info(0)['features'] += 1


@pytest.mark.parametrize('serialize_data', [True, False])
def test_it_is_a_dataset_like_every_other(write, serialize_data):
    path = write()
    dataset = FeatureDataset(path, 'train', serialize_data=serialize_data, lazy_init=True)
    assert dataset.CLASSES is None
    dataset.full_init()
    some = dataset.get_subset([4, 0])
    assert np.array_equal(some[0]['features'], FEATURES[4])
    assert len(ConcatDataset([some, FeatureDataset(path, 'train', indices=2)])) == 4
    assert len(ClassBalancedDataset(dataset, oversample_thr=0.9)) > 5
    built = MMENGINE_DATASETS.build(dict(type='mmml_losses.FeatureDataset', ann_file=path, split='train'))
    assert labels_of(pickle.loads(pickle.dumps(built))) == labels_of(dataset)


def test_uncompressed_features_are_mapped_once_and_copies_are_the_same(write):
    dataset = FeatureDataset(write(), 'train')
    row = dataset.get_data_info(2)['features']
    owner = row
    while not isinstance(owner, np.memmap):
        owner = owner.base  # None has none: the test fails where nothing is mapped
    for other in (copy.deepcopy(dataset), dataset.get_subset([2, 3]), ConcatDataset([dataset]).datasets[0]):
        found = [other.get_data_info(idx)['features'] for idx in range(len(other))]
        assert any(np.shares_memory(row, each) for each in found)
    assert len(pickle.dumps(dataset)) < 4000  # of the array only its place


def test_a_hundred_thousand_samples_are_streamed_and_never_loaded(tmp_path):
    path, count, width = tmp_path / 'large.npz', 100_000, 1280
    benchmark.write_features(path, count, width)
    features = FeatureFile(path).array('features').values
    assert features.shape == (count, width)
    if not benchmark.memory():
        pytest.skip('the system does not tell mapped from own memory')
    steps = benchmark.measure(path, workers=[0])
    assert [name for name, _, _ in steps][-1] == 'the first of these again'
    before, after = steps[0][2], steps[-1][2]
    size = path.stat().st_size / 1e6
    assert size > 256
    # Two epochs and the statistics read all features: as pages of the file, and each page is there once.
    assert after['own'] - before['own'] < size / 2
    assert after['mapped'] - before['mapped'] < 1.2 * size


def test_the_benchmark_prints_time_and_memory_of_each_step(capsys):
    benchmark.main(['--size', '300x8', '--workers', '0', '1'])
    printed = capsys.readouterr().out
    assert '300 x 8 float16, a file of 0 MB' in printed
    steps = ('before', 'open, with all labels', 'mean and deviation', 'epoch of shuffled batches, 1 workers')
    assert all(f'| {step} ' in printed for step in steps)


@pytest.mark.parametrize('workers', [0, 2])
@pytest.mark.parametrize('save', [np.savez, np.savez_compressed])
def test_workers_return_the_same_features(write, save, workers):
    dataset = FeatureDataset(write(save), 'train')
    loader = DataLoader(dataset, batch_size=2, num_workers=workers, collate_fn=list)
    rows = [sample['features'] for batch in loader for sample in batch]
    assert np.array_equal(np.stack(rows), FEATURES)


def test_labels_are_read_without_touching_features(write, monkeypatch):
    dataset = FeatureDataset(write(), 'train')

    def read(info):
        raise AssertionError('features were read')

    monkeypatch.setattr(dataset.pipeline, 'transforms', [read])
    wrapped = SinglePositive(dataset, seed=0)
    assert [len(labels) for labels in labels_of(wrapped)] == [1, 0, 1, 1, 1]


def test_label_wrappers_return_features_with_their_labels(write):
    wrapped = SinglePositive(FeatureDataset(write(), 'train'), seed=0)
    item = wrapped[3]
    assert np.array_equal(item['features'], FEATURES[3])
    assert len(item['gt_label']) == 1
    assert item['true_label'].tolist() == [1, 1, 1, 0]
    # Draws go by the ids: another order of the rows changes nothing.
    order = [3, 0, 4, 1, 2]
    changes = {name: array[order] for name, array in content().items() if name != 'classes'}
    turned = SinglePositive(FeatureDataset(write(**changes), 'train'), seed=0)
    assert labels_of(turned) == [labels_of(wrapped)[position] for position in order]


def test_stored_labels_hide_the_true_ones(write):
    observed = LABELS.copy()
    observed[3] = [0, 1, 0, 0]
    true = dict(type='mmml_losses.FeatureDataset', ann_file=write(train_40=observed), split='train', indices=[4, 3])
    dataset = StoredLabels(true, labels='train_40')
    assert labels_of(dataset) == [[2], [1]]
    assert dataset.true_labels().tolist() == LABELS[[4, 3]].tolist()
    assert dataset.settings() == dict(type='StoredLabels', labels='train_40')
    with pytest.raises(AnnotationError, match=r"has no array 'train_75', it has train_features"):
        StoredLabels(true, labels='train_75')
    with pytest.raises(AnnotationError, match=r"array 'train_ids': labels must be numbers \(5, 4\), got int64 \(5,\)"):
        StoredLabels(true, labels='train_ids')
    with pytest.raises(AnnotationError, match=r"array 'soft': labels must be 1, 0 or -1"):
        StoredLabels(dict(true, ann_file=write(soft=LABELS * 0.5)), labels='soft')
    with pytest.raises(TypeError, match='dataset must be a FeatureDataset, got StoredLabels'):
        StoredLabels(dataset, labels='train_40')


@pytest.mark.parametrize('block', [1, 2, 100])
def test_statistics_are_those_of_all_samples(write, monkeypatch, block):
    monkeypatch.setattr(feature_dataset, 'BLOCK', block)
    features = FEATURES + np.float16(100)
    features[:, 2] = 5
    path = write(train_features=features)
    mean, deviation = feature_statistics([FeatureDataset(path, 'train')])
    exact = features.astype(np.float64)
    assert np.allclose(mean, exact.mean(axis=0), rtol=1e-12)
    assert np.allclose(deviation, np.where(np.arange(6) == 2, 1, exact.std(axis=0)), rtol=1e-9)
    parts = [FeatureDataset(path, 'train', indices=[0, 4]), FeatureDataset(path, 'train', indices=[3])]
    mean, deviation = feature_statistics(parts)
    assert np.allclose(mean, exact[[0, 4, 3]].mean(axis=0), rtol=1e-12)
    assert np.allclose(deviation[:2], exact[[0, 4, 3]].std(axis=0)[:2], rtol=1e-9)


def test_statistics_of_broken_features_are_rejected(write):
    features = FEATURES.copy()
    features[3, 1] = np.nan
    dataset = FeatureDataset(write(train_features=features), 'train')
    with pytest.raises(AnnotationError, match=r"array 'train_features' has features that are not finite"):
        feature_statistics([dataset])


@pytest.mark.parametrize(
    ('changes', 'problem'),
    [
        (dict(train_features=None), "has no array 'train_features', it has train_labels, train_ids, classes"),
        (dict(train_labels=None), "has no array 'train_labels'"),
        (dict(train_features=LABELS), r"'train_features': features must be floats \(N, D\), got uint8 \(5, 4\)"),
        (dict(train_features=FEATURES[0]), r'features must be floats \(N, D\), got float16 \(6,\)'),
        (dict(train_features=FEATURES[:0]), r'features must be floats \(N, D\), got float16 \(0, 6\)'),
        (dict(train_labels=LABELS[:4]), r"'train_labels': labels must be numbers \(5, 4\), got uint8 \(4, 4\)"),
        (dict(train_labels=LABELS[0]), r'labels must be \(N, C\), got uint8 \(4,\)'),
        (dict(train_labels=LABELS.astype(str)), r'labels must be numbers \(5, 4\), got <U3'),
        (dict(train_labels=LABELS * 2), "between 0 and 1, got 2 for class 'cat' in row 0"),
        (dict(train_labels=LABELS * np.nan), "between 0 and 1, got nan for class 'cat' in row 0"),
        (dict(train_ids=np.array([1, 2, 3, 4, 1])), "has the entry of 'train_ids' 1 more than once"),
        (dict(train_ids=np.arange(4)), r"'train_ids': must be integers or text \(5,\), got int64 \(4,\)"),
        (dict(train_ids=np.arange(5.0)), r"'train_ids': must be integers or text \(5,\), got float64"),
        (dict(classes=np.array(CLASSES[:3])), r"'classes': must be integers or text \(4,\), got <U3 \(3,\)"),
        (dict(classes=np.array(['cat', 'dog', 'cat', 'car'])), "entry of 'classes' 'cat' more than once"),
        (dict(classes=np.array(CLASSES, dtype=object)), "'classes' cannot be read: it holds Python objects"),
        (dict(train_features=FEATURES.astype(object)), "'train_features' cannot be read: it holds Python objects"),
        (dict(classes=np.zeros(4, dtype='M8[s]')), "'classes' cannot be read: it must hold numbers or text"),
    ],
)
def test_an_unfit_file_is_named_with_its_problem(write, changes, problem):
    with pytest.raises(AnnotationError, match=rf'features\.npz.*{problem}'):
        FeatureDataset(write(**changes), 'train')


@pytest.mark.parametrize('name', ['ids', 'classes'])
def test_names_that_were_asked_for_must_be_there(write, name):
    with pytest.raises(AnnotationError, match="has no array 'mine'"):
        FeatureDataset(write(), 'train', **{name: 'mine'})


def test_a_missing_file_is_named_before_loading(tmp_path):
    dataset = FeatureDataset('none.npz', 'train', data_root=str(tmp_path), lazy_init=True)
    assert dataset.missing_files() == [str(tmp_path / 'none.npz')]
    with pytest.raises(
        MissingDataError, match=r'FeatureDataset needs the annotation file .*none\.npz, seen from'
    ) as caught:
        dataset.full_init()
    assert caught.value.missing == dataset.missing_files()


def npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array)
    return stream.getvalue()


def npy_header(**fields) -> bytes:
    """Return the beginning of an array as a program other than numpy may write it."""
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, dict(fortran_order=False) | fields)
    return stream.getvalue()


@pytest.mark.parametrize(
    ('members', 'problem'),
    [
        ({'a.npy': npy(LABELS), 'notes.txt': b'hello'}, "must hold arrays alone, got 'notes.txt'"),
        ({'../a.npy/': b''}, r"must hold arrays alone, got '../a.npy/'"),
        ({'a.npy': b'no array'}, "array 'a' cannot be read: .*magic"),
        ({'a.npy': npy(LABELS)[:-1]}, r"array 'a' cannot be read: its shape \(5, 4\) and type uint8 do not fit"),
        ({'a.npy': npy(LABELS) + b'x'}, r"array 'a' cannot be read: its shape \(5, 4\) and type uint8 do not fit"),
        ({'a.npy': npy(LABELS).replace(b'\x93NUMPY\x01', b'\x93NUMPY\x03')}, 'format version is .*3, 0'),
        ({'a.npy': npy_header(descr='<U0', shape=(10**11,))}, 'its type <U0 has no size'),
        ({'a.npy': npy_header(descr='<f4', shape=(-1,))}, r'its shape is \(-1,\)'),
        ({'a.npy': npy_header(descr='<f4', shape=(True,)) + bytes(4)}, r'its shape is \(True,\)'),
        ({'a.npy': npy_header(descr='<U1', shape=(1,)) + b'\xff\xff\xff\x7f'}, 'characters that do not exist'),
    ],
)
@pytest.mark.parametrize('compression', [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_archives_of_something_else_are_rejected(tmp_path, members, problem, compression):
    path = tmp_path / 'odd.npz'
    with zipfile.ZipFile(path, 'w', compression) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    with pytest.raises(AnnotationError, match=rf'odd\.npz.*{problem}'):
        FeatureFile(path).array('a')


def test_a_cut_off_or_changed_file_is_named(write):
    path = Path(write(np.savez_compressed))
    whole = path.read_bytes()
    for damaged in (b'', whole[: len(whole) // 2], b'PK\x03\x04'):
        path.write_bytes(damaged)
        with pytest.raises(AnnotationError, match=r'features\.npz cannot be read'):
            FeatureFile(path)
    middle = whole.index(b'train_features.npy') + 80
    path.write_bytes(whole[:middle] + bytes([whole[middle] ^ 255]) + whole[middle + 1 :])
    with pytest.raises(AnnotationError, match=r"array 'train_features' cannot be read"):
        FeatureFile(path).array('train_features')


def test_an_array_that_swells_when_it_is_read_is_rejected(write, monkeypatch):
    path = write(np.savez_compressed, train_features=np.zeros((5, 40000), dtype=np.float16))
    assert FeatureFile(path).array('train_features').values.shape == (5, 40000)
    monkeypatch.setattr(files, 'SUSPICIOUS_BYTES', 2**18)
    with pytest.raises(AnnotationError, match=r"'train_features' cannot be read: \d+ bytes claim to be 400128"):
        FeatureFile(path).array('train_features')


@pytest.mark.parametrize('save', [np.savez, np.savez_compressed])
@pytest.mark.parametrize(
    'array',
    [
        np.asfortranarray(np.arange(6).reshape(2, 3)),
        np.arange(3, dtype='>i4'),
        np.zeros((0, 3)),
        np.array(2.5),
        np.array(['a', 'long']),
        np.array([[True], [False]]),
    ],
    ids=['fortran', 'big-endian', 'empty', 'number', 'text', 'truth'],
)
def test_arrays_of_every_layout_come_back_as_they_were(tmp_path, save, array):
    save(tmp_path / 'arrays.npz', first=np.arange(3, dtype=np.uint8), array=array)
    values = FeatureFile(tmp_path / 'arrays.npz').array('array').values
    assert np.array_equal(values, array)
    assert values.shape == array.shape
    assert values.dtype.isnative
    assert not values.flags.writeable


def test_a_file_that_was_replaced_is_noticed_by_a_worker(write):
    pickled = pickle.dumps(FeatureFile(write()).array('train_features'))
    assert np.array_equal(pickle.loads(pickled).values, FEATURES)
    write(train_features=FEATURES[:4])
    with pytest.raises(AnnotationError, match='the file was replaced by another one'):
        pickle.loads(pickled)
