"""What every reader has: sparse labels, classes by choice, files that are named when they are missing."""

import pickle
from pathlib import Path

import numpy as np
import pytest

from mmml_losses.datasets import AnnotationError, MissingDataError
from mmml_losses.datasets.readers.reader import MultiLabelReader


class Numbers(MultiLabelReader):
    """Reads lines such as ``a.jpg +0 -2 ?1``."""

    def read_samples(self):
        self.choose_classes(['zero', 'one', 'two', 'three'], self.ann_file)
        for line in Path(self.ann_file).read_text().splitlines():
            name, *labels = line.split()
            sample = dict(img_path=self.image_path(name), gt_label=[int(x[1:]) for x in labels if x[0] == '+'])
            for key, sign in dict(negative_label='-', unknown_label='?').items():
                if any(x[0] == sign for x in labels):
                    sample[key] = [int(x[1:]) for x in labels if x[0] == sign]
            yield sample


@pytest.fixture
def root(tmp_path):
    (tmp_path / 'images').mkdir()
    (tmp_path / 'images' / 'a.jpg').touch()
    (tmp_path / 'list.txt').write_text('a.jpg +0 -2 -3\nb.jpg +1 +2 ?0\nc.jpg +3\nd.jpg -1\ne.jpg\n')
    return tmp_path


@pytest.mark.parametrize('serialize_data', [True, False])
def test_sparse_labels_become_scores_where_some_are_unknown(root, serialize_data):
    dataset = Numbers('list.txt', str(root), 'images', serialize_data=serialize_data)
    infos = [dataset.get_data_info(idx) for idx in range(5)]
    assert [info['gt_label'] for info in infos] == [[0], [1, 2], [3], [], []]
    scores = [info['gt_score'].tolist() if 'gt_score' in info else None for info in infos]
    assert scores == [[1, -1, 0, 0], [-1, 1, 1, 0], None, [-1, 0, -1, -1], None]
    assert infos[0]['gt_score'].dtype == np.float32
    assert not {'negative_label', 'unknown_label'} & {key for info in infos for key in info}
    assert dataset.get_cat_ids(1) == [1, 2]
    assert pickle.loads(pickle.dumps(dataset)).get_data_info(0)['gt_score'].tolist() == [1, -1, 0, 0]
    # Asking does not change what is stored.
    assert dataset.get_data_info(0)['gt_score'].tolist() == [1, -1, 0, 0]


def test_images_without_a_positive_can_be_dropped(root):
    dataset = Numbers('list.txt', str(root), 'images', drop_empty=True)
    assert [dataset.get_data_info(idx)['gt_label'] for idx in range(len(dataset))] == [[0], [1, 2], [3]]


def test_images_that_are_not_there_can_be_skipped(root):
    (root / 'images' / 'folder').mkdir()
    (root / 'images' / 'folder' / 'f.jpg').touch()
    (root / 'list.txt').write_text('a.jpg +0\nb.jpg +1\nfolder/f.jpg +2\nnowhere/g.jpg +3\n')
    dataset = Numbers('list.txt', str(root), 'images', skip_missing=True)
    assert [dataset.get_data_info(idx)['gt_label'] for idx in range(len(dataset))] == [[0], [2]]
    assert len(Numbers('list.txt', str(root), 'images')) == 4
    (root / 'list.txt').write_text('b.jpg +1\n')
    with pytest.raises(MissingDataError, match=r'images has none of the 1 images that .*list\.txt lists'):
        Numbers('list.txt', str(root), 'images', skip_missing=True)


def test_missing_files_are_named(root):
    lazy = Numbers('other.txt', str(root), 'pictures', lazy_init=True)
    assert lazy.missing_files() == [str(root / 'other.txt'), str(root / 'pictures')]
    with pytest.raises(MissingDataError, match=r'Numbers needs the annotation file .*other\.txt and the images in'):
        lazy.full_init()
    (root / 'images' / 'a.jpg').unlink()
    assert Numbers('list.txt', str(root), 'images', lazy_init=True).missing_files() == [str(root / 'images')]


def test_images_stay_in_their_folder(root):
    dataset = Numbers('list.txt', str(root), 'images')
    assert dataset.image_path('deep/er/x..y.jpg') == str(root / 'images' / 'deep/er/x..y.jpg')
    for name in ('../a.jpg', '/a.jpg', '\\a.jpg', 'deep/../../a.jpg', 'c:a.jpg', None, 7):
        with pytest.raises(AnnotationError, match=r'other\.txt must name images by paths below the folder'):
            dataset.image_path(name, 'other.txt')


def test_class_names_become_ascending_indices_of_the_chosen_classes(root):
    dataset = Numbers('list.txt', str(root), 'images', metainfo=dict(classes=['three', 'zero', 'one']), lazy_init=True)
    dataset.choose_classes(['zero', 'one', 'two', 'three'], 'names.txt', others=['none'])
    assert dataset.class_indices(['one', 'two', 'none', 'three', 'one'], 'line 1') == [0, 2]
    assert dataset.class_indices([], 'line 1') == []
    for names, problem in ((['ufo'], "no class 'ufo' in names.txt"), ([1], 'no class 1'), ('one', "got 'one'")):
        with pytest.raises(AnnotationError, match=f'line 1: .*{problem}'):
            dataset.class_indices(names, 'line 1')
