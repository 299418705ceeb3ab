import json
from pathlib import Path

import pytest

import mmml_losses  # noqa: F401 (repairs the import of torchvision that mmpretrain needs)
from mmml_losses.datasets import AnnotationError, MissingDataError, WIDERAttribute, read_labels
from mmml_losses.registry import DATASETS
from tests.helpers.base_config import datasets_of_config
from tests.helpers.published.wider_attribute import (
    ATTRIBUTES,
    FOOTBALL,
    HAT,
    MALE,
    PARADE,
    TEST,
    TRAINVAL,
    content,
    write_wider,
)


@pytest.fixture
def wider_root(tmp_path: Path) -> Path:
    return write_wider(tmp_path / 'wider_attribute')


def build(root: Path, **kwargs) -> WIDERAttribute:
    return WIDERAttribute(TRAINVAL, str(root), 'Image', **kwargs)


def infos(dataset) -> list[dict]:
    return [dataset.get_data_info(idx) for idx in range(len(dataset))]


def test_each_person_is_a_sample_with_its_box(wider_root):
    dataset = build(wider_root)
    assert dataset.CLASSES == ATTRIBUTES
    first, second, third = infos(dataset)
    score = first.pop('gt_score')
    assert first == dict(
        img_path=str(wider_root / 'Image' / PARADE),
        bbox=[2.0, 1.0, 3.5, 4.0],
        gt_label=[MALE, HAT],
        sample_name=f'{PARADE}#0',
        sample_idx=0,
    )
    assert score.tolist() == [1, -1, 0, 1, *[0] * 9, -1]
    assert (second['sample_name'], second['img_path']) == (f'{PARADE}#1', first['img_path'])
    assert third['sample_name'] == f'{FOOTBALL}#0'


def test_unspecified_attributes_are_unknown_or_negative(wider_root):
    assert [int((info['gt_score'] == -1).sum()) for info in infos(build(wider_root))] == [2, 1, 0]
    hard = infos(build(wider_root, unspecified='negative'))
    assert [info['gt_label'] for info in hard] == [[MALE, HAT], [], [MALE]]
    assert not any('gt_score' in info for info in hard)
    with pytest.raises(ValueError, match="unspecified must be one of 'unknown', 'negative', got 'absent'"):
        build(wider_root, unspecified='absent')


def test_persons_without_a_positive_can_be_dropped(wider_root):
    dataset = build(wider_root, drop_empty=True)
    assert [info['sample_name'] for info in infos(dataset)] == [f'{PARADE}#0', f'{FOOTBALL}#0']


def test_chosen_classes_keep_their_values(wider_root):
    dataset = build(wider_root, metainfo=dict(classes=['stripe', 'Hat', 'jeans']))
    assert dataset.get_data_info(0)['gt_score'].tolist() == [-1, 1, 0]
    assert dataset.get_cat_ids(0) == [1]


def test_labels_of_two_persons_in_one_image_are_distinguished(wider_root):
    samples = read_labels(build(wider_root))
    assert list(samples.keys) == [f'{PARADE}#0', f'{PARADE}#1', f'{FOOTBALL}#0']
    assert samples.labels[:, MALE].tolist() == [1, -1, 1]


def test_missing_files_are_named(tmp_path):
    dataset = build(tmp_path, lazy_init=True)
    assert dataset.missing_files() == [str(tmp_path / TRAINVAL), str(tmp_path / 'Image')]
    with pytest.raises(MissingDataError, match=r'WIDERAttribute needs .*trainval\.json'):
        dataset.full_init()


def broken(**changes) -> dict:
    """Return the content with changes to its first image, or to the first person in it."""
    entries = content()
    image = entries['images'][0]
    for key, value in changes.items():
        (image['targets'][0] if key in ('bbox', 'attribute') else image)[key] = value
    return entries


@pytest.mark.parametrize(
    ('entries', 'problem'),
    [
        (dict(images=[]), "must have 'attribute_id_map'"),
        (content() | dict(images={}), "'images' must be a list of dicts"),
        (content() | dict(images=[]), 'must have samples, got none at all'),
        (content() | dict(attribute_id_map={'Male': 0}), "'attribute_id_map' must give names of numbers"),
        (content() | dict(attribute_id_map={'0': 'Hat', '1': 'Hat'}), "has the attribute 'Hat' more than once"),
        (broken(file_name=FOOTBALL), f'has the image {FOOTBALL!r} more than once'),
        (broken(file_name='../train/1.jpg'), r"must name images by paths below .*, got '\.\./train/1\.jpg'"),
        (broken(file_name=None), 'must name images by paths'),
        (broken(targets=None), f"image {PARADE}: 'targets' must be a list of dicts, got None"),
        (broken(attribute=[]), rf"person {PARADE}#0: 'attribute' must have 14 values, got \[\]"),
        (broken(attribute=[1] * 15), "'attribute' must have 14 values"),
        (
            broken(attribute=[1, 2] + [1] * 12),
            rf'person {PARADE}#0: longHair must be 1, -1 or 0 \(unspecified\), got 2',
        ),
        (broken(attribute=[[1]] * 14), r'Male must be 1, -1 or 0 \(unspecified\), got \[1\]'),
        (broken(bbox=[1, 1, 0, 4]), f'person {PARADE}#0: the box must have an area'),
        (broken(bbox=[1, 1, 4]), f'person {PARADE}#0: the box must be four numbers'),
    ],
)
def test_an_unfit_file_is_named_with_the_person(wider_root, entries, problem):
    (wider_root / TRAINVAL).write_text(json.dumps(entries))
    with pytest.raises(AnnotationError, match=rf'wider_attribute_trainval\.json.*{problem}'):
        build(wider_root)


def test_boxes_without_area_can_be_dropped(wider_root):
    (wider_root / TRAINVAL).write_text(json.dumps(broken(bbox=[1, 1, 0, 4])))
    # The others keep their names.
    names = [info['sample_name'] for info in infos(build(wider_root, drop_degenerate=True))]
    assert names == [f'{PARADE}#1', f'{FOOTBALL}#0']


def test_a_truncated_file_is_named(wider_root):
    path = wider_root / TRAINVAL
    path.write_text(path.read_text()[:-40])
    with pytest.raises(AnnotationError, match=r'wider_attribute_trainval\.json is not a json file'):
        build(wider_root)


def test_the_config_crops_persons_and_names_a_missing_image(wider_root):
    train, test = datasets_of_config('wider_attribute', wider_root)
    assert (len(train), len(test)) == (2, 1)
    item = train[0]
    assert item['inputs'].shape == (3, 224, 224)
    assert item['data_samples'].gt_score.tolist() == [1, -1, 0, 1, *[0] * 9, -1]
    (wider_root / 'Image' / 'test/61--Football/1.jpg').unlink()
    with pytest.raises(FileNotFoundError, match=r'61--Football/1\.jpg'):
        test[0]


def test_it_builds_from_the_registry(wider_root):
    cfg = dict(type='mmml_losses.WIDERAttribute', ann_file=TEST, data_root=str(wider_root), data_prefix='Image')
    assert DATASETS.build(cfg).missing_files() == []
