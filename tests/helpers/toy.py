"""Small datasets for the tests of the label wrappers."""

import numpy as np
from mmengine.dataset import BaseDataset

from mmml_losses.datasets import LabelWrapper

CLASSES = ('cat', 'car', 'person', 'dog')
ROWS = [[0, 1, 2], [], [1, 2], [2], [0, 1, 2, 3], [0, 3]]


class Toy(BaseDataset):
    """Dataset without pixels, made from rows of class indices or data infos."""

    METAINFO = dict(classes=CLASSES)

    def __init__(self, rows=ROWS, folder='images', serialize_data=False, **kwargs):
        self.rows = rows
        super().__init__(data_prefix=dict(img_path=folder), serialize_data=serialize_data, **kwargs)

    def get_cat_ids(self, idx):
        return self.get_data_info(idx)['gt_label']

    def load_data_list(self):
        infos = [dict(row) if isinstance(row, dict) else dict(gt_label=list(row)) for row in self.rows]
        folder = self.data_prefix['img_path']
        return [dict(img_path=f'{folder}/{number}.jpg') | info for number, info in enumerate(infos)]


class Chosen(LabelWrapper):
    """Label wrapper that keeps some of the samples in another order, one of them twice."""

    ORDER = (4, 2, 0, 4)

    def select(self, samples):
        return np.array([position for position in self.ORDER if position < len(samples.labels)])


def more(**kwargs):
    """Return the same samples in another folder."""
    return Toy(folder='more', **kwargs)


def many(num_samples=400, num_classes=8, share=0.4, seed=0, **kwargs):
    """Return a dataset with random labels."""
    mask = np.random.RandomState(seed).rand(num_samples, num_classes) < share
    rows = [np.flatnonzero(row).tolist() for row in mask]
    return Toy(rows, metainfo=dict(classes=tuple(f'class {index}' for index in range(num_classes))), **kwargs)


def box(label, size=4, ignore=0):
    return dict(bbox=[1, 2, 1 + size, 2 + size], bbox_label=label, ignore_flag=ignore)


def detection(rows=ROWS, **kwargs):
    """Return a detection dataset with two boxes for each label, the smaller box first."""
    return Toy(
        [dict(instances=[box(label, size + label) for label in row for size in (2, 4)]) for row in rows], **kwargs
    )


def with_areas(rows=ROWS, areas=(0.1, 0.4, 0.2, 0.3), **kwargs):
    """Return a dataset in which each class has the same area in every image."""
    return Toy([dict(gt_label=list(row), label_areas=[areas[label] for label in row]) for row in rows], **kwargs)


def served(dataset):
    """Return the labels in the items of a dataset."""
    return [dataset[idx]['gt_label'] for idx in range(len(dataset))]


def array(rows, num_classes=4):
    """Return rows of class indices as labels, (N, C) int8."""
    labels = np.zeros((len(rows), num_classes), dtype=np.int8)
    for row, classes in zip(labels, rows, strict=True):
        row[list(classes)] = 1
    return labels
