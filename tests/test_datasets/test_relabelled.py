import hashlib
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
from mmengine.dataset import BaseDataset, ClassBalancedDataset, ConcatDataset, RepeatDataset
from mmengine.registry import DATASETS as MMENGINE_DATASETS
from mmengine.registry import DefaultScope
from torch.utils.data import DataLoader

import mmml_losses  # noqa: F401 (repairs the import of torchvision that mmpretrain needs)
from mmml_losses.datasets import AnnotationError, CocoMultiLabel, LabelWrapper, MissingDataError, Relabelled
from mmml_losses.datasets.labels.label_file import save_label_file
from mmml_losses.datasets.labels.reading import read_labels

CLASSES = ('cat', 'car', 'person')
ROWS = [[0], [], [1, 2], [2], [0, 1]]
SOURCE = np.array([[1, 0, 0], [0, 0, 0], [0, 1, 1], [0, 0, 1], [1, 1, 0]], dtype=np.int8)
# Adds positives to samples 1, 2 and 3.
NEW = np.array([[1, 0, 0], [0, 1, 1], [1, 1, 1], [1, 0, 1], [1, 1, 0]], dtype=np.int8)
NEW_ROWS = [[0], [1, 2], [0, 1, 2], [0, 2], [0, 1]]


class Toy(BaseDataset):
    """Five samples without pixels."""

    METAINFO = dict(classes=CLASSES, era='now')

    def __init__(self, infos=None, folder='images', serialize_data=False, **kwargs):
        self.infos = infos or [dict(gt_label=row) for row in ROWS]
        super().__init__(data_prefix=dict(img_path=folder), serialize_data=serialize_data, **kwargs)

    def get_cat_ids(self, idx):
        return self.get_data_info(idx)['gt_label']

    def load_data_list(self):
        names = [f'{self.data_prefix["img_path"]}/{number}.jpg' for number in range(len(self.infos))]
        return [dict(info, img_path=name) for info, name in zip(self.infos, names, strict=True)]


def scored(labels, **kwargs):
    return Toy([dict(gt_score=row.astype(np.float32)) for row in labels], **kwargs)


def write(folder, dataset, labels=NEW, selected=None):
    save_label_file(folder / 'labels.json', labels, read_labels(dataset), {}, selected)
    return str(folder / 'labels.json')


def served(dataset):
    return [dataset[idx]['gt_label'] for idx in range(len(dataset))]


@pytest.fixture
def file(tmp_path):
    return write(tmp_path, Toy())


class MarkRows:
    """Transform of a pipeline that notes what it was given."""

    def __init__(self, mark='seen'):
        self.mark = mark

    def __call__(self, results):
        return dict(results, **{self.mark: list(results['gt_label'])})


class Breaks:
    """A pipeline that cannot make some samples."""

    def __init__(self, *indices):
        self.indices = indices

    def __call__(self, results):
        return None if results['sample_idx'] in self.indices else results


@pytest.mark.parametrize('serialize_data', [True, False])
@pytest.mark.parametrize('workers', [0, 2])
def test_items_and_infos_have_the_labels_of_the_file(file, serialize_data, workers):
    dataset = Relabelled(Toy(serialize_data=serialize_data, pipeline=[MarkRows()]), file)
    loader = DataLoader(dataset, batch_size=2, num_workers=workers, collate_fn=list)
    for _ in range(2):
        items = [item for batch in loader for item in batch]
        assert [item['gt_label'] for item in items] == NEW_ROWS
        assert [item['seen'] for item in items] == NEW_ROWS
        assert [item['sample_idx'] for item in items] == [0, 1, 2, 3, 4]
    assert [dataset.get_data_info(idx)['gt_label'] for idx in range(5)] == NEW_ROWS
    assert [dataset.get_cat_ids(idx) for idx in range(5)] == NEW_ROWS
    assert np.array_equal([dataset[idx].pop('true_label') for idx in range(5)], SOURCE)
    assert dataset[0].keys() == {'gt_label', 'img_path', 'sample_idx', 'seen', 'true_label'}


def test_the_wrapped_dataset_stays_as_it_is(file):
    inner = Toy()
    dataset = Relabelled(inner, file)
    dataset[2]['gt_label'].append(7)
    assert served(dataset) == NEW_ROWS
    assert served(inner) == ROWS
    dataset.observed_labels()[:] = 0
    assert np.array_equal(dataset.observed_labels(), NEW)
    assert np.array_equal(dataset.source_labels(), SOURCE)


def test_indices_behave_as_in_mmengine(file):
    dataset = Relabelled(Toy(), file)
    assert dataset[-2]['sample_idx'] == 3
    assert dataset[-2]['gt_label'] == dataset.get_cat_ids(-2) == NEW_ROWS[3]
    assert [item['gt_label'] for item in dataset] == NEW_ROWS
    for idx in (5, -6):
        with pytest.raises(IndexError):
            dataset[idx]


def test_meta_information_is_that_of_the_wrapped_dataset(file):
    dataset = Relabelled(Toy(), file)
    assert dataset.metainfo == dict(classes=CLASSES, era='now')
    assert dataset.CLASSES == CLASSES
    dataset.metainfo['era'] = 'then'
    assert dataset.metainfo['era'] == 'now'


def test_lazy_datasets_read_nothing_until_they_must(tmp_path):
    lazy = Relabelled(Toy(lazy_init=True), str(tmp_path / 'labels.json'), lazy_init=True)
    assert lazy.CLASSES == CLASSES
    write(tmp_path, Toy())
    assert len(lazy) == 5
    assert served(lazy) == NEW_ROWS
    for use in (lambda d: d[1], lambda d: d.get_data_info(1), lambda d: d.get_cat_ids(1), lambda d: d.get_subset([1])):
        lazy = Relabelled(Toy(lazy_init=True), str(tmp_path / 'labels.json'), lazy_init=True)
        use(lazy)
        assert lazy._fully_initialized


def test_it_builds_from_a_config_of_the_host(file, coco_root):
    cfg = dict(
        type='mmml_losses.Relabelled',
        dataset=dict(type='RepeatDataset', times=2, dataset=dict(type=Toy)),
        labels=file,
    )
    with (
        DefaultScope.overwrite_default_scope('mmpretrain'),
        pytest.raises(AnnotationError, match='made for 5 samples, the dataset has 10'),
    ):
        MMENGINE_DATASETS.build(cfg)
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        dataset = MMENGINE_DATASETS.build(cfg | dict(dataset=dict(type=Toy)))
    assert served(dataset) == NEW_ROWS


@pytest.mark.parametrize('serialize_data', [True, False])
def test_copies_and_subsets_keep_labels_and_samples_together(file, serialize_data):
    dataset = Relabelled(Toy(serialize_data=serialize_data), file)
    assert served(pickle.loads(pickle.dumps(dataset))) == NEW_ROWS
    assert served(dataset.get_subset(2)) == NEW_ROWS[:2]
    assert served(dataset.get_subset(-2)) == NEW_ROWS[-2:]
    subset = dataset.get_subset([3, 1])
    assert served(subset) == [NEW_ROWS[3], NEW_ROWS[1]]
    assert subset[0]['img_path'] == 'images/3.jpg'
    assert served(dataset) == NEW_ROWS
    dataset.get_subset_([4, 2])
    assert served(dataset) == [NEW_ROWS[4], NEW_ROWS[2]]
    assert dataset[1]['img_path'] == 'images/2.jpg'


def test_labels_take_one_byte_each(file):
    dataset = Relabelled(Toy(), file)
    # What workers are given beyond the wrapped dataset: the array, and a few names.
    assert dataset._labels.nbytes == NEW.size
    assert len(pickle.dumps(dataset)) < len(pickle.dumps(dataset.dataset)) + NEW.size + 1000


def test_true_labels_are_for_analysis_and_not_packed_unless_asked(coco_root, tmp_path):
    pytest.importorskip('mmpretrain')

    def build(**pack):
        pipeline = [dict(type='LoadImageFromFile'), dict(type='mmpretrain.PackInputs', **pack)]
        with DefaultScope.overwrite_default_scope('mmpretrain'):
            return CocoMultiLabel('instances.json', str(coco_root), 'train', pipeline=pipeline)

    labels = 1 - read_labels(build()).labels
    file = write(tmp_path, build(), labels)
    for idx in range(4):
        sample = Relabelled(build(), file)[idx]['data_samples']
        assert sample.gt_label.tolist() == np.flatnonzero(labels[idx]).tolist()
        assert set(sample.keys()) == {'gt_label'}
        assert 'true_label' not in sample
    sample = Relabelled(build(algorithm_keys=['true_label']), file)[1]['data_samples']
    assert sample.true_label.tolist() == [1, 0, 1]


def test_a_broken_sample_is_replaced_in_training_and_an_error_in_tests(file):
    inner = Toy(pipeline=[Breaks(1, 3)])
    dataset = Relabelled(inner, file)
    for seed in range(20):
        np.random.seed(seed)
        expected = inner[1]
        np.random.seed(seed)
        item = dataset[1]
        assert item['sample_idx'] == expected['sample_idx']
        assert item['gt_label'] == NEW_ROWS[item['sample_idx']]
    with pytest.raises(Exception, match='should not get `None`'):
        Relabelled(Toy(pipeline=[Breaks(1, 3)], test_mode=True), file)[1]
    hopeless = Relabelled(Toy(pipeline=[Breaks(*range(5))], max_refetch=3), file)
    with pytest.raises(Exception, match='Cannot find valid image after 3!'):
        hopeless[0]


def test_unknown_labels_become_scores(tmp_path):
    labels = np.where(NEW > SOURCE, np.int8(-1), NEW)
    dataset = Relabelled(Toy(), write(tmp_path, Toy(), labels))
    assert served(dataset) == ROWS
    assert np.array_equal([item['gt_score'] for item in dataset], labels)
    assert 'gt_score' not in Relabelled(Toy(), write(tmp_path, Toy()))[0]


def test_scores_are_replaced_where_the_samples_have_them(tmp_path):
    unknown = np.where(SOURCE == 0, np.int8(-1), SOURCE)
    dataset = Relabelled(scored(unknown), write(tmp_path, scored(unknown)))
    for idx, item in enumerate(dataset):
        assert item['gt_score'].dtype == np.float32
        assert np.array_equal(item['gt_score'], NEW[idx])
        assert np.array_equal(item['true_label'], unknown[idx])
        assert 'gt_label' not in item


def test_around_a_concatenation_each_part_keeps_its_pipeline(tmp_path):
    def parts():
        return ConcatDataset([Toy(pipeline=[MarkRows('first')]), Toy(folder='more', pipeline=[MarkRows('second')])])

    labels = np.concatenate([NEW, 1 - NEW])
    dataset = Relabelled(parts(), write(tmp_path, parts(), labels))
    assert np.array_equal(dataset.source_labels(), np.concatenate([SOURCE, SOURCE]))
    for idx in range(10):
        item = dataset[idx]
        assert item['first' if idx < 5 else 'second'] == np.flatnonzero(labels[idx]).tolist()
        # Around a concatenation the position is unique, unlike inside.
        assert item['sample_idx'] == idx
    assert not dataset.test_mode


def test_around_repetition_and_balancing(tmp_path):
    repeated = Relabelled(
        RepeatDataset(Toy(), times=2), write(tmp_path, RepeatDataset(Toy(), times=2), np.concatenate([NEW, 1 - NEW]))
    )
    assert served(repeated)[:5] == NEW_ROWS
    assert served(repeated)[5] == [1, 2]
    inner = ClassBalancedDataset(Toy(), oversample_thr=0.9)
    assert len(inner) > 5
    labels = read_labels(inner).labels
    assert np.array_equal(labels, SOURCE[inner.repeat_indices])
    dataset = Relabelled(inner, write(tmp_path, inner, 1 - labels))
    assert served(dataset) == [np.flatnonzero(row == 0).tolist() for row in labels]


def test_inside_the_wrappers_of_mmengine(file):
    dataset = Relabelled(Toy(), file)
    assert served(ConcatDataset([dataset, Relabelled(Toy(), file)])) == NEW_ROWS * 2
    assert served(RepeatDataset(dataset, times=2)) == NEW_ROWS * 2
    assert np.array_equal(read_labels(RepeatDataset(dataset, times=2)).labels, np.concatenate([NEW, NEW]))
    old, new, same = (
        ClassBalancedDataset(inner, oversample_thr=0.7).repeat_indices
        for inner in (Toy(), dataset, Toy([dict(gt_label=row) for row in NEW_ROWS]))
    )
    assert new == same != old


def test_inside_the_folds_of_mmpretrain(file):
    datasets = pytest.importorskip('mmpretrain.datasets')
    cfg = dict(type=Relabelled, dataset=dict(type=Toy), labels=file)
    fold = datasets.KFoldDataset(cfg, fold=0, num_splits=5)
    assert served(fold) == NEW_ROWS[1:]


def test_wrappers_stack(tmp_path, file):
    class Hide(LabelWrapper):
        """Keeps the first positive of each sample."""

        def relabel(self, samples):
            return samples.labels * (samples.labels.cumsum(axis=1) == 1)

    hidden = Hide(Toy())
    assert served(hidden) == [row[:1] for row in ROWS]
    dataset = Relabelled(hidden, write(tmp_path, hidden))
    assert served(dataset) == NEW_ROWS
    assert np.array_equal(dataset.source_labels(), hidden.observed_labels())
    # The true label is that of the data, not that of the wrapper in between.
    assert np.array_equal([item['true_label'] for item in dataset], SOURCE)
    with pytest.raises(AnnotationError, match='other labels of the same images'):
        Relabelled(Toy(), str(tmp_path / 'labels.json'))


@pytest.mark.parametrize(
    ('dataset', 'message'),
    [
        (lambda: Toy(metainfo=dict(classes=('cat', 'car', 'dog'))), "class 2 is 'person' in the file and 'dog'"),
        (lambda: Toy(metainfo=dict(classes=(*CLASSES, 'dog'))), 'the file has 3 classes, the dataset 4'),
        (lambda: Toy(indices=4), 'made for 5 samples, the dataset has 4'),
        (lambda: Toy(indices=[1, 0, 2, 3, 4]), 'for the same images in another order'),
        (lambda: Toy([dict(gt_label=row) for row in NEW_ROWS]), r'other labels of the same images \(6 positives'),
    ],
)
def test_a_file_for_another_dataset_is_rejected(file, dataset, message):
    with pytest.raises(AnnotationError, match=rf'labels\.json does not fit the dataset: .*{message}'):
        Relabelled(dataset(), file)


def test_the_place_of_the_data_does_not_matter(coco_root, tmp_path):
    def build(root, **kwargs):
        return CocoMultiLabel('instances.json', str(root), 'train', **kwargs)

    file = write(tmp_path, build(coco_root), np.ones((4, 3), dtype=np.int8))
    shutil.move(coco_root, tmp_path / 'elsewhere')
    assert served(Relabelled(build(tmp_path / 'elsewhere'), file)) == [[0, 1, 2]] * 4
    absolute = CocoMultiLabel(
        str(tmp_path / 'elsewhere' / 'instances.json'), data_prefix=str(tmp_path / 'elsewhere' / 'train')
    )
    assert served(Relabelled(absolute, file)) == [[0, 1, 2]] * 4


def test_keys_are_names_below_the_folder_of_the_images():
    paths = ['images/a/0.jpg', 'images\\b\\1.jpg', 'elsewhere/2.jpg', None]

    class Listed(Toy):
        def load_data_list(self):
            return [dict(img_path=path, gt_label=[]) for path in paths]

    assert read_labels(Listed()).keys == ['a/0.jpg', 'b/1.jpg', '2.jpg', '']
    assert read_labels(Listed(folder='images/')).keys[0] == 'a/0.jpg'
    assert read_labels(Listed(folder='', data_root='images')).keys[0] == 'a/0.jpg'


def test_labels_of_many_types_are_read():
    infos = [dict(gt_label=label) for label in (2, np.int64(2), (0, 2), np.array([0]), np.array([], dtype=np.int64))]
    assert read_labels(Toy(infos)).labels.tolist() == [[0, 0, 1], [0, 0, 1], [1, 0, 1], [1, 0, 0], [0, 0, 0]]


@pytest.mark.parametrize(
    ('info', 'message'),
    [
        (dict(), 'Toy has no labels: sample 0 has neither gt_label nor gt_score'),
        (dict(gt_label=[3]), 'Toy has labels that cannot be read: class indices must be from 0 to 2, got 3 for'),
        (dict(gt_label=[-1]), 'class indices must be from 0 to 2, got -1 for sample 0'),
        (dict(gt_label=[0.5]), 'class indices must be integers'),
        (dict(gt_score=[0.0, 0.5, 1.0]), r'gt_score must be 1 \(positive\), 0 \(negative\) or -1'),
        (dict(gt_score=[0.0, 1.0]), 'Toy has labels that cannot be read'),
    ],
)
def test_labels_that_cannot_be_read_are_named(info, message):
    with pytest.raises(AnnotationError, match=message):
        read_labels(Toy([info]))


def test_a_dataset_without_classes_is_named():
    class Nameless(Toy):
        METAINFO = dict()

    with pytest.raises(AnnotationError, match='Nameless has no classes in its metainfo'):
        read_labels(Nameless())


def test_datasets_with_items_of_their_own_making_are_rejected(file):
    class Special(Toy):
        def __getitem__(self, idx):
            return dict(super().__getitem__(idx), special=True)

    for inner in (Special(), ConcatDataset([Toy(), Special()])):
        with pytest.raises(TypeError, match='Special has a __getitem__ of its own'):
            Relabelled(inner, file)
    with pytest.raises(TypeError, match=r"dataset must be one of MMEngine's kind, .* got list"):
        Relabelled([1, 2], file)


@pytest.mark.parametrize('serialize_data', [True, False])
def test_a_file_may_choose_samples(tmp_path, serialize_data):
    def build():
        return Toy(serialize_data=serialize_data, pipeline=[MarkRows()])

    dataset = Relabelled(build(), write(tmp_path, build(), NEW[[3, 1]], [3, 1]))
    assert len(dataset) == 2
    assert served(dataset) == [item['seen'] for item in dataset] == [NEW_ROWS[3], NEW_ROWS[1]]
    assert [item['img_path'] for item in dataset] == ['images/3.jpg', 'images/1.jpg']
    assert [item['sample_idx'] for item in dataset] == [0, 1]
    assert np.array_equal(dataset.true_labels(), SOURCE[[3, 1]])
    with pytest.raises(AnnotationError, match='made for 5 samples, the dataset has 4'):
        Relabelled(Toy(indices=4), str(tmp_path / 'labels.json'))


def test_the_settings_identify_the_file(file, tmp_path):
    settings = Relabelled(Toy(), file).settings()
    assert settings == dict(
        type='Relabelled', labels='labels.json', sha256=hashlib.sha256(Path(file).read_bytes()).hexdigest()
    )
    assert Relabelled(Toy(), file, lazy_init=True).missing_files() == []
    missing = str(tmp_path / 'nothing.json')
    assert Relabelled(Toy(), missing, lazy_init=True).missing_files() == [missing]


@pytest.mark.parametrize('name', ['labels.pkl', 'labels', 'labels.gz', 'labels.json.gz'])
def test_a_file_of_another_kind_is_rejected_by_its_name(name):
    with pytest.raises(ValueError, match=rf"labels must be a file '\.json', '\.txt' or '\.txt\.gz', got '{name}'"):
        Relabelled(Toy(), name, lazy_init=True)


def test_a_missing_file_is_named_before_the_dataset_is_built(tmp_path):
    def build():
        raise AssertionError('the dataset was built')

    with pytest.raises(MissingDataError, match=r'label file .*nothing\.json does not exist'):
        Relabelled(dict(type=build), str(tmp_path / 'nothing.json'))


def test_wrapping_a_dataset_of_the_size_of_coco_takes_a_byte_per_label(tmp_path):
    labels = np.random.RandomState(0).rand(82081, 80) < 0.04
    infos = [dict(gt_label=np.flatnonzero(row).tolist()) for row in labels]
    inner = Toy(infos, metainfo=dict(classes=tuple(map(str, range(80)))))
    file = write(tmp_path, inner, np.roll(labels, 1, axis=1).astype(np.int8))
    dataset = Relabelled(inner, file)
    assert dataset._labels.nbytes == labels.size
    assert dataset.positions() is None
