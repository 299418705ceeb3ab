"""How labels are read from datasets of every kind, wrapped and not."""

import numpy as np
import pytest
from mmengine.dataset import BaseDataset, ClassBalancedDataset, ConcatDataset, RepeatDataset

import mmml_losses  # noqa: F401 (repairs the import of torchvision that mmpretrain needs)
from mmml_losses.datasets import (
    AnnotationError,
    MissingLabels,
    PartialLabels,
    SinglePositive,
    read_label_changes,
    read_labels,
)
from mmml_losses.datasets.labels.data_infos import DatasetKindError
from mmml_losses.datasets.readers.reader import MultiLabelReader
from tests.helpers.toy import CLASSES, ROWS, Chosen, Toy, array, more, with_areas


@pytest.mark.parametrize('serialize_data', [True, False])
def test_data_infos_are_neither_copied_nor_asked_for_one_by_one(serialize_data, monkeypatch):
    datasets = [Toy(serialize_data=serialize_data, indices=indices) for indices in (None, [4, 2], -2)]
    monkeypatch.setattr(BaseDataset, 'get_data_info', None)
    for dataset, rows in zip(datasets, (ROWS, [ROWS[4], ROWS[2]], ROWS[-2:]), strict=True):
        assert np.array_equal(read_labels(dataset).labels, array(rows))


def test_readers_are_read_sparsely(monkeypatch):
    class Reader(MultiLabelReader):
        def missing_files(self):
            return []

        def read_samples(self):
            self.choose_classes(CLASSES, 'this file')
            yield dict(img_path='images/0.jpg', gt_label=[1], negative_label=[0, 3])
            yield dict(img_path='images/1.jpg', gt_label=[2], unknown_label=[0])
            yield dict(img_path='images/2.jpg', gt_label=[0, 2])

    for serialize_data in (True, False):
        dataset = Reader(data_prefix='images', serialize_data=serialize_data)
        expected = [[0, 1, -1, 0], [-1, 0, 1, 0], [1, 0, 1, 0]]
        with monkeypatch.context() as patch:
            patch.setattr(BaseDataset, 'get_data_info', None)
            assert read_labels(dataset).labels.tolist() == expected
        # As the data infos have them, which make scores of what is listed.
        wrapper = MissingLabels(dataset, 1)
        assert [info['true_label'].tolist() for info in wrapper] == expected
        assert [info['gt_score'].tolist() for info in wrapper][:2] == expected[:2]
        assert not {'negative_label', 'unknown_label'} & wrapper[0].keys()


def test_soft_labels_are_read_and_not_wrapped():
    class Soft(MultiLabelReader):
        def missing_files(self):
            return []

        def read_samples(self):
            self.choose_classes(CLASSES, 'this file')
            yield dict(img_path='images/0.jpg', gt_label=[1, 3], label_scores=[0.25, 1])
            yield dict(img_path='images/1.jpg', gt_label=[0], unknown_label=[2])

    expected = [[0, 0.25, 0, 1], [1, 0, -1, 0]]
    dense = Toy([dict(gt_score=np.array(row, dtype=np.float32)) for row in expected])
    for dataset in (Soft(data_prefix='images'), dense, ConcatDataset([dense, dense])):
        changes = read_label_changes(dataset)
        assert changes.observed.dtype == np.float32
        assert changes.observed.tolist() == expected * (len(dataset) // 2)
        with pytest.raises(AnnotationError, match=r'to hide or replace labels, got the soft label 0.25 for class 1'):
            PartialLabels(dataset, 0.5)


def test_areas_follow_the_samples():
    dataset = Chosen(ConcatDataset([with_areas(), more()]))
    assert read_labels(dataset).areas is None
    areas = read_labels(dataset, with_areas=True).areas
    assert areas.dtype == np.float32
    assert np.allclose(areas[0], [0.1, 0.4, 0.2, 0.3])
    assert np.array_equal(np.isnan(areas), array(ROWS)[list(Chosen.ORDER)] == 0)
    assert np.isnan(read_labels(ConcatDataset([with_areas(), more()]), with_areas=True).areas[6:]).all()
    assert read_labels(Toy(), with_areas=True).areas is None
    # The list next to the labels stays next to them.
    item = MissingLabels(with_areas(), 0.5, order='smallest_first')[4]
    assert (item['gt_label'], item['label_areas']) == ([1, 2, 3], [0.4, 0.2, 0.3])


@pytest.mark.parametrize(
    ('dataset', 'samples', 'original'),
    [
        (lambda: Toy(), range(6), range(6)),
        (lambda: RepeatDataset(Toy(), 3), range(6), range(6)),
        (lambda: MissingLabels(Toy(), 0.5), range(6), range(6)),
        (lambda: RepeatDataset(MissingLabels(Toy(), 0.5), 3), range(6), range(6)),
        (lambda: ClassBalancedDataset(Chosen(Toy()), 0.9), Chosen.ORDER, range(6)),
        (lambda: MissingLabels(Chosen(SinglePositive(Toy())), 0.5), Chosen.ORDER, range(6)),
        (lambda: MissingLabels(RepeatDataset(Toy(), 2), 0.5), [*range(6)] * 2, [*range(6)] * 2),
        (lambda: ConcatDataset([Chosen(Toy()), Toy()]), [*Chosen.ORDER, *range(6)], [*range(6)] * 2),
        (lambda: Chosen(ConcatDataset([SinglePositive(Toy()), Toy()])), Chosen.ORDER, [*range(6)] * 2),
    ],
)
def test_label_changes_have_before_and_after(dataset, samples, original):
    dataset = dataset()
    changes = read_label_changes(dataset)
    assert changes.classes == CLASSES
    assert np.array_equal(changes.true, array(ROWS)[list(samples)])
    assert np.array_equal(changes.original, array(ROWS)[list(original)])
    inner = dataset.dataset if isinstance(dataset, (RepeatDataset, ClassBalancedDataset)) else dataset
    assert np.array_equal(changes.observed, read_labels(inner).labels)
    assert [inner.get_data_info(idx)['sample_idx'] for idx in range(len(inner))] == changes.sample_idx.tolist()


def test_label_changes_of_the_folds_of_mmpretrain():
    datasets = pytest.importorskip('mmpretrain.datasets')
    fold = datasets.KFoldDataset(dict(type=SinglePositive, dataset=dict(type=Toy)), fold=0, num_splits=3)
    changes = read_label_changes(fold)
    assert np.array_equal(changes.observed, SinglePositive(Toy()).observed_labels()[2:])
    assert np.array_equal(changes.true, array(ROWS)[2:])
    assert np.array_equal(changes.original, array(ROWS)[2:])


def test_what_has_no_data_infos_is_rejected():
    with pytest.raises(DatasetKindError, match=r"MMEngine's kind, with get_data_info, is needed .* got list"):
        read_label_changes([1, 2])


@pytest.mark.parametrize('serialize_data', [True, False])
def test_samples_have_the_numbers_of_their_items(serialize_data):
    """Not those that annotations may have brought along, such as when they were taken from a larger set."""
    dataset = Toy([dict(gt_label=[0], sample_idx=7), dict(gt_label=[1], sample_idx=7)], serialize_data=serialize_data)
    assert [dataset[idx]['sample_idx'] for idx in range(2)] == [0, 1]
    assert read_label_changes(dataset).sample_idx.tolist() == [0, 1]
