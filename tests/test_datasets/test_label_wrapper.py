"""Label wrappers around anything and inside anything: samples, labels, true labels and pipelines stay together."""

import copy
import pickle

import numpy as np
import pytest
from mmengine.dataset import ClassBalancedDataset, ConcatDataset, RepeatDataset
from mmengine.registry import DATASETS as MMENGINE_DATASETS
from mmengine.registry import DefaultScope
from torch.utils.data import DataLoader

import mmml_losses  # noqa: F401 (repairs the import of torchvision that mmpretrain needs)
from benchmarks import labels as benchmark
from mmml_losses.datasets import (
    LabelWrapper,
    MissingLabels,
    PartialLabels,
    SinglePositive,
    read_labels,
)
from tests.helpers.toy import CLASSES, ROWS, Chosen, Toy, array, many, more, served

TRUTH = {f'{folder}/{number}.jpg': row for folder in ('images', 'more') for number, row in enumerate(array(ROWS))}


class ChosenAndChanged(Chosen):
    """Also hides the first class."""

    def relabel(self, samples):
        return np.where(np.arange(samples.labels.shape[1]) == 0, 0, samples.labels)


class Marks:
    """Transform of a pipeline that leaves its mark."""

    def __init__(self, mark):
        self.mark = mark

    def __call__(self, results):
        return dict(results, mark=self.mark, seen=list(results['gt_label']))


# MMEngine's wrappers take each other as configs alone.
NESTINGS = {
    'missing': lambda: MissingLabels(Toy(), 0.5),
    'missing(single)': lambda: MissingLabels(SinglePositive(Toy()), 0.5),
    'partial(missing)': lambda: PartialLabels(MissingLabels(Toy(), 0.5), 0.5),
    'single(partial)': lambda: SinglePositive(PartialLabels(Toy(), 0.7)),
    'missing(missing)': lambda: MissingLabels(MissingLabels(Toy(), 0.3), 0.3),
    'chosen': lambda: Chosen(Toy()),
    'chosen and changed': lambda: ChosenAndChanged(Toy()),
    'partial(chosen)': lambda: PartialLabels(Chosen(Toy()), 0.5),
    'chosen(partial)': lambda: Chosen(PartialLabels(Toy(), 0.5)),
    'chosen(chosen)': lambda: Chosen(Chosen(Toy())),
    'missing(concat)': lambda: MissingLabels(ConcatDataset([Toy(), more()]), 0.5),
    'chosen(concat)': lambda: Chosen(ConcatDataset([Toy(indices=3), more()])),
    'chosen(repeat(missing))': lambda: Chosen(RepeatDataset(MissingLabels(Toy(), 0.5), 2)),
    'missing(balanced)': lambda: MissingLabels(ClassBalancedDataset(Toy(), 0.9), 0.5),
    'missing(balanced(chosen))': lambda: MissingLabels(ClassBalancedDataset(Chosen(Toy()), 0.9), 0.5),
    'single(concat(repeat, chosen))': lambda: SinglePositive(
        ConcatDataset([dict(type=RepeatDataset, dataset=Toy(), times=2), Chosen(MissingLabels(more(), 0.5))])
    ),
    'concat(missing, chosen)': lambda: ConcatDataset([MissingLabels(Toy(), 0.5), Chosen(more())]),
    'repeat(chosen)': lambda: RepeatDataset(Chosen(Toy()), 3),
    'balanced(missing)': lambda: ClassBalancedDataset(MissingLabels(Toy(), 0.5), 0.9),
    'concat(repeat(partial(chosen)), balanced(single))': lambda: ConcatDataset(
        [
            dict(type=RepeatDataset, dataset=PartialLabels(Chosen(Toy()), 0.5), times=2),
            dict(type=ClassBalancedDataset, dataset=SinglePositive(more()), oversample_thr=0.9),
        ]
    ),
}


@pytest.mark.parametrize('name', NESTINGS)
def test_all_ways_to_the_labels_agree(name):
    dataset = NESTINGS[name]()
    labels = read_labels(dataset)
    assert len(dataset) == len(labels.labels) == len(labels.keys)
    for idx, (key, row) in enumerate(zip(labels.keys, labels.labels, strict=True)):
        for info in (dataset.get_data_info(idx), dataset[idx]):
            assert info['img_path'].endswith(f'/{key}')
            assert info['gt_label'] == np.flatnonzero(row == 1).tolist()
            assert np.array_equal(info['true_label'], TRUTH[info['img_path']])
            if (row == -1).any():
                assert np.array_equal(info['gt_score'], row)
        if isinstance(dataset, LabelWrapper):
            assert info['sample_idx'] == idx
            assert dataset.get_cat_ids(idx) == info['gt_label']
    if isinstance(dataset, LabelWrapper):
        assert np.array_equal(dataset.observed_labels(), labels.labels)
        assert np.array_equal(dataset.true_labels(), [info['true_label'] for info in dataset])
        assert np.array_equal(dataset.uncorrected_labels(), labels.labels)
        # What was hidden below stays hidden: no wrapper here adds a positive, or knows what was unknown.
        source = dataset.source_labels()
        assert ((labels.labels == 1) <= (source == 1)).all()
        assert ((labels.labels == -1) >= (source == -1)).all()


@pytest.mark.parametrize('name', NESTINGS)
def test_copies_for_workers_return_the_same(name):
    dataset = NESTINGS[name]()
    expected = read_labels(dataset).labels
    for other in (pickle.loads(pickle.dumps(dataset)), copy.deepcopy(dataset)):
        assert np.array_equal(read_labels(other).labels, expected)
        assert served(other) == served(dataset)


def test_the_truth_is_that_of_the_innermost_dataset():
    dataset = SinglePositive(Chosen(MissingLabels(Toy(), 0.5)))
    assert np.array_equal(dataset.true_labels(), array(ROWS)[list(Chosen.ORDER)])
    assert (dataset.observed_labels().sum(axis=1) == 1).all()


def test_what_is_brought_back_is_no_given_label():
    class Truth(LabelWrapper):
        """Brings back what others hid, and takes the last class away."""

        def relabel(self, samples):
            return np.where(np.arange(4) == 3, 0, array(ROWS)[list(Chosen.ORDER)])

    hidden = Chosen(SinglePositive(Toy()))
    dataset = Truth(hidden)
    expected = hidden.observed_labels()
    expected[:, 3] = 0
    assert np.array_equal(dataset.uncorrected_labels(), expected)
    assert not np.array_equal(dataset.observed_labels(), expected)
    # A label that became unknown is none that was corrected.
    partial = PartialLabels(Toy(), 0.5)
    assert np.array_equal(partial.uncorrected_labels(), partial.observed_labels())


def test_each_sample_goes_through_its_own_pipeline():
    dataset = Chosen(ConcatDataset([Toy(indices=3, pipeline=[Marks('first')]), more(pipeline=[Marks('second')])]))
    assert [dataset[idx]['mark'] for idx in range(4)] == ['second', 'first', 'first', 'second']
    assert [dataset[-1]['img_path'], dataset[-2]['img_path']] == ['more/1.jpg', 'images/0.jpg']
    assert all(item['seen'] == item['gt_label'] for item in dataset)
    nested = MissingLabels(RepeatDataset(Chosen(Toy(pipeline=[Marks('inner')])), 2), 1)
    assert [(item['mark'], item['seen']) for item in nested] == [('inner', row) for row in served(nested)]


def test_a_copy_of_a_sample_has_its_labels():
    for copies in (RepeatDataset(many(), 2), ConcatDataset([many(), many()])):
        labels = MissingLabels(copies, 0.8).observed_labels()
        assert np.array_equal(labels[:400], labels[400:])


def test_labels_belong_to_names_and_not_to_places():
    labels = SinglePositive(many()).observed_labels()
    order = np.random.RandomState(1).permutation(400)[:100].tolist()
    assert np.array_equal(SinglePositive(many(indices=order)).observed_labels(), labels[order])
    assert np.array_equal(SinglePositive(many(indices=50)).observed_labels(), labels[:50])
    assert np.array_equal(SinglePositive(many(folder='elsewhere/data')).observed_labels(), labels)
    assert np.array_equal(SinglePositive(many()).get_subset(order).observed_labels(), labels[order])


def test_samples_of_one_name_are_distinguished():
    """Objects in one image, and samples without an image."""
    for infos, keys in (
        ([dict(gt_label=[0, 1, 2, 3], img_path='a.jpg')] * 3, ['a.jpg', 'a.jpg#2', 'a.jpg#3']),
        ([dict(gt_label=[0, 1, 2, 3], img_path=None)] * 3, ['', '#2', '#3']),
        ([dict(gt_label=[0], img_path=name) for name in ('a', 'a#2', 'a', 'a')], ['a', 'a#2', 'a#3', 'a#4']),
        ([dict(gt_label=[0], img_path='a.jpg', sample_name=str(number)) for number in range(3)], ['0', '1', '2']),
    ):
        assert read_labels(Toy(infos)).keys == keys
    rows = [dict(gt_label=[0, 1, 2, 3], img_path='a.jpg')] * 400
    assert (SinglePositive(Toy(rows)).observed_labels().sum(axis=0) > 50).all()


@pytest.mark.parametrize('serialize_data', [True, False])
def test_subsets_of_any_wrapper(serialize_data):
    dataset = PartialLabels(
        Chosen(ConcatDataset([Toy(indices=3, serialize_data=serialize_data), more(serialize_data=serialize_data)])), 0.5
    )
    labels, paths = dataset.observed_labels(), [info['img_path'] for info in dataset]
    for indices, chosen in ((2, [0, 1]), (-1, [3]), ([3, 1], [3, 1]), ((0,), [0]), (0, [])):
        subset = dataset.get_subset(indices)
        assert np.array_equal(subset.observed_labels(), labels[chosen])
        assert [info['img_path'] for info in subset] == [paths[idx] for idx in chosen]
        assert [info['sample_idx'] for info in subset] == list(range(len(chosen)))
        assert np.array_equal(subset.true_labels(), dataset.true_labels()[chosen])
        assert np.array_equal(subset.source_labels(), dataset.source_labels()[chosen])
    subset = dataset.get_subset([3, 1]).get_subset([1])
    assert np.array_equal(subset.observed_labels(), labels[[1]])
    assert len(dataset) == 4
    dataset.get_subset_([2, 0])
    assert np.array_equal(dataset.observed_labels(), labels[[2, 0]])
    assert [info['img_path'] for info in dataset] == [paths[2], paths[0]]


@pytest.mark.parametrize(
    ('indices', 'got'),
    [
        ([True, False, True, False, False, True], r'bool \(6,\)'),
        (np.ones(6, dtype=bool), r'bool \(6,\)'),
        (True, r'bool \(\)'),
        ([0.9, 1.7], r'float64 \(2,\)'),
        ([[0, 1]], r'int64 \(1, 2\)'),
        ('3', r'\(\)'),
        (slice(2), r'object \(\)'),
    ],
)
def test_what_is_no_choice_of_samples_is_rejected(indices, got):
    dataset = MissingLabels(Toy(), 0.5)
    for choose in (dataset.get_subset, dataset.get_subset_):
        with pytest.raises(TypeError, match=rf'indices must be a whole number or positions, .* got .*{got}'):
            choose(indices)
    assert len(dataset) == len(ROWS)
    assert len(dataset.get_subset(np.int64(2))) == len(dataset.get_subset(range(2))) == 2
    with pytest.raises(IndexError, match='index 6 is out of bounds'):
        dataset.get_subset([6])


@pytest.mark.parametrize(
    ('method', 'given', 'error', 'message'),
    [
        ('relabel', np.full((6, 4), 0.5), ValueError, r'relabel of Own gives must be 1 .* or -1 .*, got 0\.5'),
        ('relabel', np.full((6, 4), 2), ValueError, r'relabel of Own gives must be 1 .* or -1 .*, got 2'),
        ('relabel', np.zeros((6, 3)), ValueError, r'relabel of Own must give .* \(6, 4\), got the shape \(6, 3\)'),
        ('relabel', None, ValueError, r'relabel of Own must give .* \(6, 4\), got the shape \(\)'),
        ('select', [0.7, 1.2], TypeError, r'select of Own must give positions, whole numbers \(N,\), got float64'),
        ('select', np.ones(6, dtype=bool), TypeError, r'select of Own must give positions, .* got bool \(6,\)'),
    ],
)
def test_a_wrapper_that_gives_no_labels_or_positions_is_named(method, given, error, message):
    wrapper = type('Own', (LabelWrapper,), {method: lambda self, samples: given})
    with pytest.raises(error, match=message):
        wrapper(Toy())


def test_lazy_wrappers_read_when_they_must():
    class Counted(Toy):
        loads = 0

        def load_data_list(self):
            Counted.loads += 1
            return super().load_data_list()

    lazy = MissingLabels(Chosen(Counted(lazy_init=True), lazy_init=True), 0.5, lazy_init=True)
    assert lazy.CLASSES == CLASSES
    assert lazy.settings()['missing_ratio'] == 0.5
    assert Counted.loads == 0
    copied = copy.deepcopy(lazy)
    assert len(lazy) == 4
    assert np.array_equal(copied.observed_labels(), lazy.observed_labels())
    lazy.full_init()
    lazy.full_init()
    assert Counted.loads == 2
    for use in (lambda d: d[1], lambda d: d.positions(), lambda d: d.true_labels(), lambda d: d.get_subset(1)):
        lazy = Chosen(Toy(lazy_init=True), lazy_init=True)
        use(lazy)
        assert lazy._fully_initialized


def test_classes_that_only_the_annotations_know_are_found_however_late_they_are_read():
    class Named(Toy):
        METAINFO = dict()

        def load_data_list(self):
            self._metainfo['classes'] = CLASSES
            return super().load_data_list()

    def late():
        return Named(lazy_init=True)

    for inner in (
        late(),
        RepeatDataset(late(), 2, lazy_init=True),
        ClassBalancedDataset(late(), 0.9, lazy_init=True),
        ConcatDataset([late(), late()]),
        ConcatDataset([dict(type=RepeatDataset, dataset=late(), times=2), late()], lazy_init=True),
    ):
        dataset = MissingLabels(inner, 0.5)
        assert dataset.CLASSES == read_labels(dataset).classes == CLASSES
        assert 0 < dataset.observed_labels().sum() < dataset.true_labels().sum()


def test_concatenated_classes_may_have_other_names_where_mmengine_ignores_them():
    other = Toy(metainfo=dict(classes=('chat', 'voiture', 'personne', 'chien')))
    dataset = MissingLabels(ConcatDataset([Toy(), other], ignore_keys='classes'), 0.5)
    assert dataset.CLASSES == CLASSES
    assert np.array_equal(dataset.true_labels(), array(ROWS + ROWS))


def test_it_builds_from_nested_configs_of_the_host():
    cfg = dict(
        type='mmml_losses.PartialLabels',
        known_ratio=0.5,
        dataset=dict(
            type='RepeatDataset',
            times=2,
            dataset=dict(type='mmml_losses.MissingLabels', missing_ratio=0.8, dataset=dict(type=Toy)),
        ),
    )
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        dataset = MMENGINE_DATASETS.build(cfg)
    expected = PartialLabels(RepeatDataset(MissingLabels(Toy(), 0.8), 2), 0.5)
    assert np.array_equal(dataset.observed_labels(), expected.observed_labels())
    assert dataset.metainfo == dict(classes=CLASSES)


def test_a_byte_for_each_image_and_class():
    inner = many(3000, 80, serialize_data=True)
    empty = len(pickle.dumps(MissingLabels(many(0, 80), 0.5))) - len(pickle.dumps(many(0, 80)))
    for wrapper in (MissingLabels(inner, 0.5), SinglePositive(inner), PartialLabels(inner, 0.5)):
        assert wrapper._labels.nbytes == 3000 * 80
        assert wrapper._labels.flags.c_contiguous
        # What workers are given beyond the wrapped dataset: the array, and a few names.
        assert len(pickle.dumps(wrapper)) - len(pickle.dumps(inner)) < 3000 * 80 + empty + 200


def test_other_kinds_are_rejected():
    class Own(Toy):
        def prepare_data(self, idx):
            return super().prepare_data(idx)

    for inner in (Own(), ConcatDataset([Toy(), Own()])):
        with pytest.raises(TypeError, match='Own has a prepare_data of its own'):
            MissingLabels(inner, 0.5)


def test_every_epoch_and_number_of_workers_sees_the_same():
    dataset = MissingLabels(ConcatDataset([many(60, serialize_data=True), Chosen(many(60, seed=1))]), 0.8)
    expected = [row.tolist() for row in dataset.observed_labels()]
    for workers in (0, 1, 4):
        loader = DataLoader(dataset, batch_size=8, num_workers=workers, collate_fn=list, persistent_workers=workers > 0)
        for _ in range(2):
            items = [item for batch in loader for item in batch]
            assert [array([item['gt_label']], 8)[0].tolist() for item in items] == expected


def test_the_benchmark_prints_a_row_for_each_wrapper(capsys):
    benchmark.main(['--sizes', '30x5', '--rounds', '1'])
    printed = capsys.readouterr().out
    assert 'Wrapping 30 images x 5 classes' in printed
    assert all(f'| {name} ' in printed for name in benchmark.WRAPPERS)
