import math
from pathlib import Path

import numpy as np
import pytest
from mmengine.registry import DefaultScope

import mmml_losses  # noqa: F401 (repairs the import of torchvision that mmpretrain needs)
from mmml_losses.datasets import VOC, AnnotationError, MissingDataError
from mmml_losses.registry import DATASETS
from tests.helpers.base_config import datasets_of_config
from tests.helpers.published.voc import HEIGHT, OBJECTS, WIDTH, write_voc

AEROPLANE, BIRD, BOTTLE, PERSON, SHEEP = 0, 2, 4, 14, 16


@pytest.fixture
def voc_root(tmp_path: Path) -> Path:
    return write_voc(tmp_path / 'VOCdevkit' / 'VOC2012')


def change(root: Path, before: str, after: str, image_id: str = '2008_000002') -> None:
    path = root / 'Annotations' / f'{image_id}.xml'
    content = path.read_text()
    assert before in content
    path.write_text(content.replace(before, after))


def labels(dataset) -> dict[str, list[int]]:
    infos = [dataset.get_data_info(i) for i in range(len(dataset))]
    return {info['img_id']: info['gt_label'] for info in infos}


def test_the_classes_are_in_alphabetical_order(voc_root):
    classes = VOC(str(voc_root)).CLASSES
    assert len(classes) == 20
    assert list(classes) == sorted(classes)


def test_items_hold_path_unique_sorted_labels_areas_and_id(voc_root):
    dataset = VOC(str(voc_root), split='train')
    assert dataset[0] == dict(
        img_path=str(voc_root / 'JPEGImages' / '2007_000027.jpg'),
        gt_label=[AEROPLANE, SHEEP],
        label_areas=[0.5, 0.2],
        img_id='2007_000027',
        sample_idx=0,
    )
    assert labels(dataset) == {'2007_000027': [AEROPLANE, SHEEP], '2008_000002': [BIRD]}
    assert list(labels(VOC(str(voc_root)))) == list(OBJECTS)


def test_labels_are_those_of_mmpretrain(voc_root):
    theirs = pytest.importorskip('mmpretrain.datasets').VOC(str(voc_root), split='trainval')
    ours = VOC(str(voc_root), split='trainval')
    assert theirs.CLASSES == ours.CLASSES
    for i in range(len(theirs)):
        their_info, our_info = theirs.get_data_info(i), ours.get_data_info(i)
        assert sorted(their_info['gt_label']) == our_info['gt_label']
        assert their_info['img_path'] == our_info['img_path']


def test_difficult_objects_can_count_or_make_labels_unknown(voc_root):
    assert labels(VOC(str(voc_root), 'val')) == {'2008_000003': [], '2011_003353': [PERSON]}
    assert labels(VOC(str(voc_root), 'val', drop_empty=True)) == {'2011_003353': [PERSON]}
    positive = VOC(str(voc_root), difficult='positive')
    assert labels(positive)['2008_000002'] == [BIRD, BOTTLE]
    assert positive[1]['label_areas'] == [1.0, 0.1]
    unknown = VOC(str(voc_root), difficult='unknown')
    assert labels(unknown) == labels(VOC(str(voc_root)))
    expected = np.zeros(20, dtype=np.float32)
    expected[[BIRD, BOTTLE]] = 1, -1
    assert unknown[1]['gt_score'].dtype == expected.dtype
    assert unknown[1]['gt_score'].tolist() == expected.tolist()
    # Every sample has the scores, so that a batch can be stacked.
    assert all((unknown[i]['gt_score'] == -1).sum() == count for i, count in enumerate([0, 1, 1, 0]))


def test_boxes_are_clipped_to_the_image(voc_root):
    assert VOC(str(voc_root), 'val')[1]['label_areas'] == [10 * 5 / (WIDTH * HEIGHT)]


def test_without_a_size_areas_are_in_pixels(voc_root):
    change(voc_root, f'<width>{WIDTH}</width>', '<width>0</width>', '2007_000027')
    assert VOC(str(voc_root))[0]['label_areas'] == [100.0, 40.0]


def test_an_object_without_difficult_is_not_difficult(voc_root):
    change(voc_root, '<difficult>1</difficult>', '')
    assert labels(VOC(str(voc_root)))['2008_000002'] == [BIRD, BOTTLE]


def test_metainfo_chooses_and_orders_the_classes(voc_root):
    dataset = VOC(str(voc_root), difficult='unknown', metainfo=dict(classes=['sheep', 'bottle']))
    assert labels(dataset)['2007_000027'] == [0]
    assert dataset[1]['gt_score'].tolist() == [0, -1]
    with pytest.raises(ValueError, match='classes in metainfo must be classes of VOC, got zebra'):
        VOC(str(voc_root), metainfo=dict(classes=['zebra']))


def test_another_list_of_ids_can_be_read(voc_root):
    (voc_root / 'mine.txt').write_text('2011_003353\n')
    assert list(labels(VOC(str(voc_root), ann_file='mine.txt'))) == ['2011_003353']


def test_it_builds_from_the_registry_lazily(voc_root):
    cfg = dict(type='mmml_losses.VOC', data_root=str(voc_root), split='val', lazy_init=True)
    assert DATASETS.build(cfg).missing_files() == []


@pytest.mark.parametrize('year', [2007, 2012])
def test_the_configs_read_it(voc_root, year):
    lists = voc_root / 'ImageSets' / 'Main'
    (lists / 'test.txt').write_text((lists / 'val.txt').read_text())  # as VOC 2007 has it
    train, test = datasets_of_config(f'voc{year}', voc_root)
    assert (len(train), len(test)) == (4 if year == 2007 else 2, 2)
    assert train[0]['data_samples'].gt_label.tolist() == [AEROPLANE, SHEEP]
    assert test[1]['inputs'].shape == (3, 448, 448)


@pytest.mark.parametrize(('argument', 'value'), [('split', 'minival'), ('difficult', 'maybe')])
def test_unknown_choices_are_rejected(argument, value):
    with pytest.raises(ValueError, match=f'{argument} must be one of .*, got {value!r}'):
        VOC('data', **{argument: value})


def test_data_prefix_needs_both_folders():
    with pytest.raises(ValueError, match="must have the keys 'img_path' and 'ann_path'"):
        VOC('data', data_prefix=dict(img_path='JPEGImages'))


def test_missing_files_are_named(tmp_path):
    dataset = VOC(str(tmp_path), 'train', lazy_init=True)
    expected = [str(tmp_path / part) for part in ('ImageSets/Main/train.txt', 'JPEGImages', 'Annotations')]
    assert dataset.missing_files() == expected
    with pytest.raises(MissingDataError) as caught:
        dataset.full_init()
    assert caught.value.missing == expected
    assert 'public' not in str(caught.value)


def test_a_missing_annotation_is_named(voc_root):
    path = voc_root / 'Annotations' / '2008_000003.xml'
    path.unlink()
    with pytest.raises(MissingDataError, match=r'2008_000003\.xml is missing, .*val\.txt lists') as caught:
        VOC(str(voc_root), 'val')
    assert caught.value.missing == [str(path)]


@pytest.mark.parametrize('listed', [True, False])
def test_test_of_2012_has_no_public_annotations(voc_root, listed):
    if listed:
        (voc_root / 'ImageSets' / 'Main' / 'test.txt').write_text('2008_000001\n')
    with pytest.raises(MissingDataError, match=r'annotations of the test set are public for VOC 2007 only'):
        VOC(str(voc_root), 'test')


def test_a_missing_image_is_named_when_it_is_loaded(voc_root):
    (voc_root / 'JPEGImages' / '2008_000003.jpg').unlink()
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        dataset = VOC(str(voc_root), 'val', pipeline=[dict(type='LoadImageFromFile')], test_mode=True)
    assert dataset[1]['img'].shape == (HEIGHT, WIDTH, 3)
    with pytest.raises(FileNotFoundError, match=r'2008_000003\.jpg'):
        dataset[0]


@pytest.mark.parametrize('image_id', ['../2008_000002', '/etc/2008_000002', 'a/../../b', '..\\b'])
def test_an_id_cannot_leave_the_folders(voc_root, image_id):
    (voc_root / 'ImageSets' / 'Main' / 'train.txt').write_text(f'{image_id}\n')
    with pytest.raises(AnnotationError, match=r'train\.txt must name images by paths below the folder of the images'):
        VOC(str(voc_root), 'train')


def test_a_repeated_id_is_rejected(voc_root):
    (voc_root / 'ImageSets' / 'Main' / 'train.txt').write_text('2008_000002\n2008_000003\n2008_000002\n')
    with pytest.raises(AnnotationError, match=r"train\.txt has the image id '2008_000002' more than once"):
        VOC(str(voc_root), 'train')


@pytest.mark.parametrize(
    ('before', 'after', 'problem'),
    [
        ('bottle', 'zebra', "must have one of the 20 classes of VOC, got 'zebra'"),
        ('<name>bottle</name>', '<name></name>', "must have one of the 20 classes of VOC, got ''"),
        ('<name>bottle</name>', '', "must have one of the 20 classes of VOC, got ''"),
        ('<difficult>1', '<difficult>yes', 'must be numbers: .*yes'),
        ('<xmax>6', '<xmax>wide', 'must be numbers: .*wide'),
        ('<xmax>6</xmax>', '', 'must be numbers: an object has no box'),
        ('</annotation>\n', '', 'is not an xml file: .*line'),
        ('<annotation>\n', '<annotation>&boom;', 'is not an xml file: undefined entity'),
        ('<folder>', '<folder>\x01', 'is not an xml file'),
    ],
)
def test_an_unfit_annotation_is_named_with_its_problem(voc_root, before, after, problem):
    change(voc_root, before, after)
    with pytest.raises(AnnotationError, match=rf'2008_000002\.xml.* {problem}'):
        VOC(str(voc_root))


@pytest.mark.parametrize(
    ('content', 'problem'),
    [
        (b'', 'is not an xml file: no element'),
        (b'<html></html>', "must have the root element 'annotation', got 'html'"),
        (b'<?xml version="1.0" encoding="klingon"?><annotation/>', 'is not an xml file: unknown encoding'),
        (b'<?xml version="1.0" encoding="utf-7"?><annotation/>', 'is not an xml file'),
    ],
)
def test_another_file_in_place_of_an_annotation_is_named(voc_root, content, problem):
    (voc_root / 'Annotations' / '2008_000002.xml').write_bytes(content)
    with pytest.raises(AnnotationError, match=rf'2008_000002\.xml {problem}'):
        VOC(str(voc_root))


@pytest.mark.parametrize('encoding', ['utf-8', 'utf-16'])
def test_entities_are_never_expanded(voc_root, encoding):
    declared = ''.join(f'<!ENTITY e{i} "{f"&e{i - 1};" * 10 if i else "sheep"}">' for i in range(30))
    content = f'<?xml version="1.0" encoding="{encoding}"?><!DOCTYPE a [{declared}]><annotation>&e29;</annotation>'
    (voc_root / 'Annotations' / '2008_000002.xml').write_bytes(content.encode(encoding))
    with pytest.raises(AnnotationError, match=r'2008_000002\.xml must not have a document type'):
        VOC(str(voc_root))


def test_areas_are_finite(voc_root):
    dataset = VOC(str(voc_root), difficult='positive')
    assert all(math.isfinite(area) and 0 <= area <= 1 for info in dataset for area in info['label_areas'])
