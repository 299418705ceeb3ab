"""Label wrappers around detection datasets: boxes follow the labels."""

import json

import numpy as np
import pytest
from mmengine.dataset import ConcatDataset, RepeatDataset
from mmengine.registry import DefaultScope

import mmml_losses  # noqa: F401 (repairs the import of torchvision that mmpretrain needs)
from mmml_losses.datasets import (
    AnnotationError,
    LabelWrapper,
    MissingBoxes,
    MissingLabels,
    PartialLabels,
    SinglePositive,
    read_label_changes,
    read_labels,
)
from tests.helpers.published.coco import coco_content
from tests.helpers.toy import CLASSES, ROWS, Chosen, Toy, array, box, detection

from .test_voc import voc_root  # noqa: F401


def boxes_of(info, ignore=0):
    return [each['bbox_label'] for each in info['instances'] if each['ignore_flag'] == ignore]


class Fixed(LabelWrapper):
    """Return the labels that it is given."""

    def __init__(self, dataset, labels):
        self.given = np.array(labels, dtype=np.int8)
        super().__init__(dataset)

    def relabel(self, samples):
        return self.given


def test_an_image_has_the_classes_of_its_boxes():
    rows = [dict(instances=[box(2), box(2), box(0), box(1, ignore=1)]), dict(instances=[])]
    assert read_labels(Toy(rows)).labels.tolist() == [[1, 0, 1, 0], [0, 0, 0, 0]]
    assert np.array_equal(read_labels(detection()).labels, array(ROWS))
    areas = read_labels(Toy(rows), with_areas=True).areas
    assert np.isnan(areas[:, [1, 3]]).all()
    assert areas[0, [0, 2]].tolist() == [16, 16]


@pytest.mark.parametrize('serialize_data', [True, False])
def test_hidden_classes_lose_all_their_boxes(serialize_data):
    dataset = MissingLabels(detection(serialize_data=serialize_data), 0.5)
    for idx, (row, true) in enumerate(zip(dataset.observed_labels(), array(ROWS), strict=True)):
        for info in (dataset[idx], dataset.get_data_info(idx)):
            assert boxes_of(info) == np.repeat(np.flatnonzero(row), 2).tolist()
            assert np.array_equal(info['true_label'], true)
            assert not {'gt_label', 'gt_score'} & info.keys()
        assert dataset.get_cat_ids(idx) == np.flatnonzero(row).tolist()
    # The wrapped dataset keeps them.
    assert boxes_of(dataset.dataset[4]) == [0, 0, 1, 1, 2, 2, 3, 3]


def test_unknown_classes_have_boxes_to_ignore():
    dataset = Fixed(detection([[0, 1, 2]]), [[1, -1, 0, -1]])
    info = dataset[0]
    assert boxes_of(info) == [0, 0]
    assert boxes_of(info, ignore=1) == [1, 1]
    assert not {'gt_label', 'gt_score'} & info.keys()
    assert dataset.observed_labels().tolist() == [[1, -1, 0, -1]]


def test_what_the_annotation_ignores_stays_where_its_class_is_not_hidden():
    rows = [dict(instances=[box(0), box(0, ignore=1), box(1, ignore=1), box(2)])]
    assert boxes_of(Fixed(Toy(rows), [[1, 0, 1, 0]])[0], ignore=1) == [0, 1]
    # The crowd of a class that is hidden would tell of it.
    info = Fixed(Toy(rows), [[0, 0, 1, 0]])[0]
    assert boxes_of(info) == [2]
    assert boxes_of(info, ignore=1) == [1]


def test_nested_wrappers_and_those_of_mmengine():
    dataset = PartialLabels(Chosen(MissingLabels(RepeatDataset(detection(), 2), 0.5)), 0.6)
    for info, row in zip(dataset, dataset.observed_labels(), strict=True):
        assert sorted(set(boxes_of(info))) == np.flatnonzero(row == 1).tolist()
        hidden_positives = (row == -1) & (info['true_label'] == 1)
        assert set(boxes_of(info, ignore=1)) <= set(np.flatnonzero(hidden_positives).tolist())
    assert np.array_equal(dataset.true_labels(), array(ROWS)[list(Chosen.ORDER)])
    mixed = SinglePositive(ConcatDataset([detection(), Toy()]))
    assert np.array_equal(read_label_changes(mixed).true, array(ROWS + ROWS))
    assert len(set(boxes_of(mixed[4]))) == len(mixed[10]['gt_label']) == 1
    # With the labels, the boxes follow as well.
    both = SinglePositive(Toy([dict(gt_label=[0, 2], instances=[box(0), box(2)])]))[0]
    assert boxes_of(both) == both['gt_label']


def test_a_class_without_a_box_cannot_come():
    with pytest.raises(AnnotationError, match=r'Fixed must not add a class to a detection dataset, .* for sample 1'):
        Fixed(detection([[0], [1]]), [[1, 0, 0, 0], [1, 1, 0, 0]])


@pytest.fixture
def coco_detection(coco_root):
    """MMDetection's CocoDataset of a few images; image 5 shows a cat and two persons, 30 a car and a crowd of cats."""
    datasets = pytest.importorskip('mmdet.datasets')
    content = coco_content()
    for image in content['images']:
        image.update(width=12, height=10)
    for annotation in content['annotations']:
        size = 2 + annotation['id']
        annotation.update(bbox=[0, 0, size, size], area=size * size)
    (coco_root / 'boxes.json').write_text(json.dumps(content))

    def build(**pack):
        pipeline = [
            dict(type='LoadImageFromFile'),
            dict(type='mmdet.LoadAnnotations', with_bbox=True),
            dict(type='mmdet.PackDetInputs', **pack),
        ]
        with DefaultScope.overwrite_default_scope('mmdet'):
            return datasets.CocoDataset(
                ann_file='boxes.json',
                data_root=str(coco_root),
                data_prefix=dict(img='train'),
                metainfo=dict(classes=('person', 'cat', 'car')),
                pipeline=pipeline,
            )

    return build


def test_coco_of_mmdetection(coco_detection):
    inner = coco_detection()
    labels = read_labels(inner, with_areas=True)
    position = labels.keys.index('COCO_train2014_000000000005.jpg')
    assert labels.labels[position].tolist() == [1, 1, 0]
    assert labels.areas[position, [0, 1]].tolist() == [25, 16]
    dataset = MissingLabels(inner, 1, order='smallest_first')
    sample = dataset[position]['data_samples']
    assert sample.gt_instances.labels.tolist() == [0, 0]
    assert inner[position]['data_samples'].gt_instances.labels.tolist() == [0, 1, 0]
    hidden = Fixed(inner, np.where(labels.labels == 1, -1, 0))
    sample = hidden[position]['data_samples']
    assert (len(sample.gt_instances), sample.ignored_instances.labels.tolist()) == (0, [0, 1, 0])


def test_the_true_label_is_not_packed_for_detectors(coco_detection):
    for sample in (item['data_samples'] for item in MissingLabels(coco_detection(), 1)):
        assert 'true_label' not in sample
        assert 'true_label' not in sample.metainfo
        assert set(sample.keys()) == {'gt_instances', 'ignored_instances'}
        assert set(sample.gt_instances.keys()) == {'bboxes', 'labels'}
    sample = MissingLabels(coco_detection(meta_keys=('true_label',)), 1)[0]['data_samples']
    assert 'true_label' in sample.metainfo


def test_around_the_concatenation_of_mmdetection():
    """Its metainfo is a list as soon as its parts differ in anything."""
    concatenation = pytest.importorskip('mmdet.datasets').ConcatDataset
    joined = concatenation([detection(metainfo=dict(palette=[1])), detection(metainfo=dict(palette=[2]))])
    assert isinstance(joined.metainfo, list)
    dataset = MissingLabels(joined, 0.5)
    assert dataset.CLASSES == CLASSES
    assert np.array_equal(dataset.true_labels(), array(ROWS + ROWS))
    assert read_label_changes(joined).classes == CLASSES
    other = concatenation([detection(), detection(metainfo=dict(classes=('car', 'cat', 'person', 'dog')))])
    message = (
        r'parts of ConcatDataset must have the same classes, got 4 \(cat, car, person, \.\.\.\) in part 0 and '
        r'4 \(car, cat, person, \.\.\.\) in part 1'
    )
    for use in (lambda: MissingLabels(other, 0.5), lambda: read_label_changes(other)):
        with pytest.raises(AnnotationError, match=message):
            use()


def test_boxes_of_coco_of_mmdetection_are_hidden_one_by_one(coco_detection):
    inner = coco_detection()
    position = read_labels(inner).keys.index('COCO_train2014_000000000005.jpg')
    # The boxes of a person, a cat and a person, of 9, 16 and 25 pixels.
    sample = MissingBoxes(inner, 1, 'floor', order='smallest_first')[position]['data_samples']
    assert sample.gt_instances.labels.tolist() == [0]
    assert sample.gt_instances.bboxes.tensor.tolist() == [[0, 0, 5, 5]]
    dataset = MissingBoxes(inner, 1)
    crowds = [item['data_samples'].ignored_instances.labels.tolist() for item in dataset]
    assert crowds == [item['data_samples'].ignored_instances.labels.tolist() for item in inner]
    assert sum(map(len, crowds)) == 2
    assert [len(item['data_samples'].gt_instances) for item in dataset] == [0] * len(inner)
    assert dataset.count_boxes() == (4, 4)


def test_boxes_of_voc_of_mmdetection_are_hidden_one_by_one(voc_root):  # noqa: F811
    datasets = pytest.importorskip('mmdet.datasets')
    inner = datasets.VOCDataset(
        ann_file='ImageSets/Main/trainval.txt',
        data_root=f'{voc_root}/',
        data_prefix=dict(sub_data_root=''),
        pipeline=[],
    )
    before = [boxes_of(item) for item in inner]
    ignored = [boxes_of(item, ignore=1) for item in inner]
    dataset = MissingBoxes(inner, 1, 'floor')
    assert [len(boxes_of(item)) for item in dataset] == [min(len(row), 1) for row in before]
    assert [boxes_of(item, ignore=1) for item in dataset] == ignored
    assert any(ignored)
    assert max(map(len, before)) > 1
