import json
from pathlib import Path

import numpy as np
import pytest

import mmml_losses  # noqa: F401 (repairs the import of torchvision that mmpretrain needs)
from mmml_losses.datasets import VAW, AnnotationError, MissingDataError, read_labels
from mmml_losses.registry import DATASETS
from tests.helpers.base_config import datasets_of_config
from tests.helpers.published.vaw import FILES, NAMES, write_vaw

TILED, GRAY, LIGHT = 0, 1, 2


@pytest.fixture
def vaw_root(tmp_path: Path) -> Path:
    return write_vaw(tmp_path / 'vaw')


def build(root: Path, ann_file='train_part1.json', **kwargs) -> VAW:
    return VAW(ann_file, str(root), **kwargs)


def infos(dataset) -> list[dict]:
    return [dataset.get_data_info(idx) for idx in range(len(dataset))]


def test_each_instance_is_a_sample_with_its_box(vaw_root):
    dataset = build(vaw_root)
    assert list(dataset.CLASSES) == NAMES
    info = dataset.get_data_info(0)
    score = info.pop('gt_score')
    assert info == dict(
        img_path=str(vaw_root / 'VG_100K' / '2373241.jpg'),
        bbox=[1.0, 2.5, 4.166666666666664, 2.5],
        gt_label=[TILED, LIGHT],
        img_id='2373241',
        sample_name='2373241004',
        object_name='floor',
        sample_idx=0,
    )
    assert score.shape == (620,)
    assert np.flatnonzero(score == 1).tolist() == [TILED, LIGHT]
    assert np.flatnonzero(score == 0).tolist() == [GRAY, 619]
    assert (score == -1).sum() == 616


def test_parts_make_one_dataset_whose_images_are_searched(vaw_root):
    dataset = build(vaw_root, ['train_part1.json', 'train_part2.json', 'val.json'])
    folders = [Path(info['img_path']).parent.name for info in infos(dataset)]
    assert folders == ['VG_100K', 'VG_100K', 'VG_100K_2', 'VG_100K_2']
    assert list(read_labels(dataset).keys) == ['2373241004', '2373241005', '1592001', '107009']
    assert len(build(vaw_root, drop_empty=True)) == 1


def test_one_folder_is_not_searched(vaw_root):
    dataset = build(vaw_root, 'val.json', image_folders=['VG_100K'])
    assert dataset.get_data_info(0)['img_path'] == str(vaw_root / 'VG_100K' / '107.jpg')
    for wrong in (dict(image_folders=[]), dict(ann_file=[])):
        with pytest.raises(ValueError, match='ann_file and image_folders must have at least one entry each'):
            build(vaw_root, **wrong)


def test_chosen_classes_leave_the_others_out(vaw_root):
    dataset = build(vaw_root, metainfo=dict(classes=['gray', 'attribute 5', 'tiled']))
    assert [info['gt_score'].tolist() for info in infos(dataset)] == [[0, -1, 1], [0, -1, -1]]
    assert dataset.get_cat_ids(0) == [2]


def test_an_attribute_that_is_positive_and_negative_is_unknown(vaw_root, monkeypatch):
    said = []
    monkeypatch.setattr('mmml_losses.datasets.readers.vaw.print_log', lambda text, **kwargs: said.append(text))
    rewrite(vaw_root, positive_attributes=['gray', 'tiled'], negative_attributes=['tiled'])
    info = build(vaw_root).get_data_info(0)
    assert info['gt_label'] == [GRAY]
    assert info['gt_score'][[TILED, GRAY]].tolist() == [-1, 1]
    assert len(said) == 1
    assert '1 attributes of' in said[0]
    assert 'the first of instance 2373241004' in said[0]


def rewrite(root: Path, **changes) -> None:
    first, *others = FILES['train_part1.json']
    entry = {key: value for key, value in (first | changes).items() if value is not ...}
    (root / 'train_part1.json').write_text(json.dumps([entry, *others]))


def test_missing_files_are_named(tmp_path, vaw_root):
    dataset = build(tmp_path / 'none', ['train_part1.json', 'val.json'], lazy_init=True)
    names = ('attribute_index.json', 'train_part1.json', 'val.json', 'VG_100K', 'VG_100K_2')
    assert dataset.missing_files() == [str(tmp_path / 'none' / name) for name in names]
    with pytest.raises(MissingDataError, match=r'VAW needs the annotation files .*attribute_index\.json'):
        dataset.full_init()


def test_a_missing_image_is_named_or_skipped(vaw_root):
    rewrite(vaw_root, image_id='999')
    with pytest.raises(MissingDataError, match=r'train_part1\.json names the image 999\.jpg, which is not there: .*VG'):
        build(vaw_root)
    assert [info['img_id'] for info in infos(build(vaw_root, skip_missing=True))] == ['2373241']


@pytest.mark.parametrize(
    ('changes', 'problem'),
    [
        (dict(positive_attributes=['shiny']), r"entry 0, positive_attributes: there is no class 'shiny'"),
        (dict(negative_attributes=['']), r"entry 0, negative_attributes: there is no class ''"),
        (dict(negative_attributes=[3]), r'entry 0, negative_attributes: there is no class 3'),
        (dict(positive_attributes='gray'), r"entry 0, positive_attributes: must be a list of classes, got 'gray'"),
        (dict(positive_attributes=None), r'entry 0, positive_attributes: must be a list'),
        (dict(negative_attributes=...), 'entry 0: must be a dict with negative_attributes'),
        (dict(instance_id='2373241005'), r'entry 1: the instance_id 2373241005 is already in .*part1\.json, entry 0'),
        (dict(image_id='../2373241'), r"must name images by paths below .*, got '\.\./2373241\.jpg'"),
        (dict(instance_bbox=[1, 2, 0, 3]), r'entry 0, instance_bbox: the box must have an area'),
        (dict(instance_bbox=None), r'entry 0, instance_bbox: the box must be four numbers'),
    ],
)
def test_an_unfit_instance_is_named(vaw_root, changes, problem):
    rewrite(vaw_root, **changes)
    with pytest.raises(AnnotationError, match=rf'train_part1\.json.*{problem}'):
        build(vaw_root)


def test_boxes_without_area_can_be_dropped(vaw_root):
    rewrite(vaw_root, instance_bbox=[1, 2, 0, 3])
    assert [info['sample_name'] for info in infos(build(vaw_root, drop_degenerate=True))] == ['2373241005']


def test_an_instance_in_two_parts_is_rejected(vaw_root):
    with pytest.raises(AnnotationError, match=r'the instance_id 2373241004 is already in .*train_part1\.json, entry 0'):
        build(vaw_root, ['train_part1.json', 'train_part1.json'])


@pytest.mark.parametrize(
    ('file', 'content', 'problem'),
    [
        ('train_part1.json', '[{"image_id": "2373241", "insta', 'is not a json file'),
        ('train_part1.json', '{}', 'must hold a list, got a dict'),
        ('train_part1.json', '["a"]', 'entry 0: must be a dict with image_id'),
        ('train_part1.json', '[]', 'must have samples, got none'),
        ('attribute_index.json', '{"gray": 0, "tiled"', 'is not a json file'),
        ('attribute_index.json', '{"gray": 0, "tiled": 2}', 'must give each attribute an index, from 0 without gaps'),
        ('attribute_index.json', '{"gray": 0, "tiled": "1"}', 'must give each attribute an index'),
        ('attribute_index.json', '{}', 'must give each attribute an index'),
    ],
)
def test_an_unfit_file_is_named(vaw_root, file, content, problem):
    (vaw_root / file).write_text(content)
    with pytest.raises(AnnotationError, match=rf'{file}.*{problem}'):
        build(vaw_root)


def test_the_config_crops_instances(vaw_root):
    train, test = datasets_of_config('vaw', vaw_root)
    assert (len(train), len(test)) == (4, 1)
    item = train[0]
    assert item['inputs'].shape == (3, 224, 224)
    assert (item['data_samples'].gt_score == 1).nonzero().flatten().tolist() == [TILED, LIGHT]
    (vaw_root / 'VG_100K' / '498335.jpg').unlink()
    with pytest.raises(FileNotFoundError, match=r'498335\.jpg'):
        test[0]


def test_it_builds_from_the_registry(vaw_root):
    cfg = dict(type='mmml_losses.VAW', ann_file='val.json', data_root=str(vaw_root))
    assert DATASETS.build(cfg).missing_files() == []
