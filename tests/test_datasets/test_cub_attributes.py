from pathlib import Path

import numpy as np
import pytest

import mmml_losses  # noqa: F401 (repairs the import of torchvision that mmpretrain needs)
from mmml_losses.datasets import AnnotationError, CUBAttributes, MissingDataError, PartialLabels
from mmml_losses.registry import DATASETS
from tests.helpers.base_config import datasets_of_config
from tests.helpers.published.cub_attributes import IMAGES, LABELS, NUM_ATTRIBUTES, attribute_name, write_cub


@pytest.fixture
def cub_root(tmp_path: Path) -> Path:
    return write_cub(tmp_path)


def labels(dataset) -> dict[int, list[int]]:
    infos = [dataset.get_data_info(idx) for idx in range(len(dataset))]
    return {info['img_id']: info['gt_label'] for info in infos}


def change(path: Path, before: str, after: str) -> None:
    content = path.read_text()
    assert before in content
    path.write_text(content.replace(before, after, 1))


def test_the_splits_have_their_images_with_all_labels(cub_root):
    train, test = CUBAttributes(str(cub_root)), CUBAttributes(str(cub_root), 'test')
    assert len(train.CLASSES) == NUM_ATTRIBUTES
    assert train.CLASSES[:2] == ('has_bill_shape::curved_(up_or_down)', 'has_part_2::colour_2')
    assert train[0] == dict(img_path=str(cub_root / 'images' / IMAGES[2]), img_id=2, gt_label=[1, 9, 149], sample_idx=0)
    assert labels(train) == {2: [1, 9, 149], 3: [4]}
    assert labels(test) == {1: [0, 311]}


@pytest.mark.parametrize(
    ('min_certainty', 'positive', 'unknown'),
    [(2, [1, 9, 149], [6]), (3, [1, 149], [6, 9]), (4, [1], [6, 9, 149])],
)
def test_less_certain_labels_become_unknown(cub_root, min_certainty, positive, unknown):
    info = CUBAttributes(str(cub_root), min_certainty=min_certainty).get_data_info(0)
    assert info['gt_label'] == positive
    assert np.flatnonzero(info['gt_score'] == -1).tolist() == unknown
    assert np.flatnonzero(info['gt_score'] == 1).tolist() == positive
    assert info['gt_score'].dtype == np.float32
    assert not {'unknown_label', 'negative_label'} & set(info)


def test_an_image_whose_positives_are_uncertain_can_be_dropped(cub_root):
    dataset = CUBAttributes(str(cub_root), min_certainty=2, drop_empty=True)
    assert list(labels(dataset)) == [2]


def test_chosen_classes_keep_their_columns(cub_root):
    names = [attribute_name(number) for number in (150, 1, 2)]
    dataset = CUBAttributes(str(cub_root), metainfo=dict(classes=names), min_certainty=4)
    assert labels(dataset) == {2: [2], 3: []}
    assert dataset.get_data_info(0)['gt_score'].tolist() == [-1, 0, 1]


@pytest.mark.parametrize('place', ['attributes/attributes.txt', 'attributes.txt'])
def test_the_list_of_attributes_may_lie_in_the_folder(cub_root, place):
    (cub_root.parent / 'attributes.txt').rename(cub_root / place)
    assert len(CUBAttributes(str(cub_root)).CLASSES) == NUM_ATTRIBUTES


def test_it_goes_into_label_wrappers(cub_root):
    wrapped = PartialLabels(CUBAttributes(str(cub_root), min_certainty=4), known_ratio=1.0)
    assert (wrapped.observed_labels() == -1).sum() == 4


def test_each_missing_file_is_named(tmp_path):
    root = tmp_path / 'CUB'
    dataset = CUBAttributes(str(root), lazy_init=True)
    names = ('images.txt', 'train_test_split.txt', '../attributes.txt', 'attributes/certainties.txt', LABELS, 'images')
    assert [Path(path).resolve() for path in dataset.missing_files()] == [(root / name).resolve() for name in names]
    with pytest.raises(MissingDataError, match=r'CUBAttributes needs the annotation files .*images\.txt'):
        dataset.full_init()


@pytest.mark.parametrize(
    ('file', 'before', 'after', 'problem'),
    [
        ('images.txt', '3 002', '2 002', r'images\.txt, line 3: the image id 2 is there more than once'),
        ('images.txt', '3 002.Lay', '3002.Lay', r"images\.txt, line 3: must be '<image id> <entry>', got '3002\.Lay"),
        ('images.txt', '2 001.', '2 ../001.', r'images\.txt must name images by paths below the folder'),
        ('images.txt', '2 001.', '2 /001.', r'images\.txt must name images by paths below the folder'),
        ('train_test_split.txt', '2 1', '2 7', r"train_test_split\.txt, line 2: must be 1 \(train\) or 0 .* got '7'"),
        ('train_test_split.txt', '2 1', '9 1', r'train_test_split\.txt, line 2: images\.txt has no image id 9'),
        ('train_test_split.txt', '3 1\n', '', r'train_test_split\.txt must have a line for each image, got .* id 3'),
        (
            '../attributes.txt',
            '3 has_part_3::colour_3',
            '3 has_part_2::colour_2',
            r"attributes\.txt has the attribute '",
        ),
        ('attributes/certainties.txt', '1 not visible', '1 visible', r"certainties\.txt must go from '1 not visible'"),
        (LABELS, '1 3 0 4 ', '1 3 5 4 ', r'labels\.txt, line 3: is_present must be 0 or 1, not 5'),
        (LABELS, '1 3 0 4 ', '1 3 0 5 ', r'labels\.txt, line 3: the certainty id must be 1, 2, 3 or 4, not 5'),
        (LABELS, '1 3 0 4 ', '1 313 0 4 ', r'labels\.txt, line 3: attributes\.txt has no attribute id 313'),
        (LABELS, '1 3 0 4 ', '4 3 0 4 ', r'labels\.txt, line 3: images\.txt has no image id 4'),
        (LABELS, '1 3 0 4 ', '1 2 0 4 ', r'labels\.txt, line 3: the image id 1 has the attribute id 2 more than once'),
        (LABELS, '1 3 0 4 27.7080', '1 3 0', r"labels\.txt, line 3: must be an image id, .* got '1 3 0'"),
        (LABELS, '1 3 0 4 27.7080\n', '', r'labels\.txt must have a line for .* image id 1 and the attribute id 3'),
    ],
)
def test_an_unfit_file_is_named_with_the_line(cub_root, file, before, after, problem):
    change(cub_root / file, before, after)
    with pytest.raises(AnnotationError, match=problem):
        CUBAttributes(str(cub_root))


@pytest.mark.parametrize('file', ['images.txt', 'train_test_split.txt', '../attributes.txt', LABELS])
def test_a_truncated_or_empty_file_is_named(cub_root, file):
    path = cub_root / file
    content = path.read_text()
    path.write_text(content[: len(content) * 2 // 3])
    with pytest.raises(AnnotationError, match=r'(labels|split|images|attributes)\.txt'):
        CUBAttributes(str(cub_root))
    path.write_text('')
    with pytest.raises(AnnotationError, match=r'\.txt (is empty|must have a line)'):
        CUBAttributes(str(cub_root))


def test_arguments_are_checked(cub_root):
    with pytest.raises(ValueError, match="split must be one of 'train', 'test', got 'val'"):
        CUBAttributes(str(cub_root), 'val')
    with pytest.raises(ValueError, match='min_certainty must be 1, 2, 3 or 4, got 5'):
        CUBAttributes(str(cub_root), min_certainty=5)


def test_the_config_reads_images_and_names_a_missing_one(cub_root):
    train, test = datasets_of_config('cub_attributes', cub_root)
    assert (len(train), len(test)) == (2, 1)
    assert train[0]['inputs'].shape == (3, 448, 448)
    assert test[0]['data_samples'].gt_label.tolist() == [0, 311]
    (cub_root / 'images' / IMAGES[1]).unlink()
    with pytest.raises(FileNotFoundError, match=r'Black_Footed_Albatross_0046_18\.jpg'):
        test[0]


def test_it_builds_from_the_registry(cub_root):
    cfg = dict(type='mmml_losses.CUBAttributes', data_root=str(cub_root), split='test')
    assert DATASETS.build(cfg).missing_files() == []


def test_attributes_are_found_next_to_a_relative_data_root(tmp_path, monkeypatch):
    (tmp_path / 'CUB' / 'images').mkdir(parents=True)
    (tmp_path / 'attributes.txt').touch()
    monkeypatch.chdir(tmp_path / 'CUB' / 'images')
    dataset = CUBAttributes(data_root='..', lazy_init=True)
    assert str(tmp_path / 'attributes.txt') in dataset.annotation_files()
