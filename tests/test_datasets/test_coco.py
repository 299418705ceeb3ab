import json
import pickle
import shutil

import pytest
from mmengine.dataset import ClassBalancedDataset, ConcatDataset
from mmengine.registry import DefaultScope

import mmml_losses  # noqa: F401 (repairs the import of torchvision that mmpretrain needs)
from mmml_losses.datasets import AnnotationError, CocoMultiLabel, MissingDataError
from mmml_losses.registry import DATASETS
from tests.helpers.base_config import datasets_of_config
from tests.helpers.published.coco import CATEGORIES, coco_content

CAT, CAR, PERSON = 0, 1, 2


def build(root, **kwargs) -> CocoMultiLabel:
    return CocoMultiLabel('instances.json', data_root=str(root), data_prefix=dict(img_path='train'), **kwargs)


def labels(dataset) -> dict[int, list[int]]:
    infos = [dataset.get_data_info(i) for i in range(len(dataset))]
    return {info['img_id']: info['gt_label'] for info in infos}


def rewrite(root, **changes) -> None:
    path = root / 'instances.json'
    content = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({key: value for key, value in content.items() if value is not None}))


def test_classes_follow_the_category_ids(coco_root):
    dataset = build(coco_root)
    assert dataset.CLASSES == dataset.metainfo['classes'] == ('cat', 'car', 'person')


def test_items_hold_path_unique_sorted_labels_and_id(coco_root):
    dataset = build(coco_root)
    assert dataset[1] == dict(
        img_path=str(coco_root / 'train' / 'COCO_train2014_000000000005.jpg'),
        gt_label=[CAT, PERSON],
        label_areas=[16.0, 16.0],
        img_id=5,
        sample_idx=1,
    )
    assert labels(dataset) == {9: [], 5: [CAT, PERSON], 30: [CAT, CAR], 12: [CAR]}
    assert list(labels(dataset)) == [9, 5, 30, 12]


def test_images_without_label_can_be_dropped(coco_root):
    assert labels(build(coco_root, drop_empty=True)) == {5: [CAT, PERSON], 30: [CAT, CAR], 12: [CAR]}


def test_crowds_can_be_left_out(coco_root):
    assert labels(build(coco_root, with_crowd=False)) == {9: [], 5: [CAT, PERSON], 30: [CAR], 12: []}
    assert list(labels(build(coco_root, with_crowd=False, drop_empty=True))) == [5, 30]


def test_metainfo_chooses_and_orders_the_classes(coco_root):
    dataset = build(coco_root, metainfo=dict(classes=['person', 'cat'], era='now'))
    assert dataset.CLASSES == ('person', 'cat')
    assert dataset.metainfo['era'] == 'now'
    assert labels(dataset) == {9: [], 5: [0, 1], 30: [1], 12: []}
    with pytest.raises(ValueError, match=r'classes in metainfo must be classes of .*instances\.json, got dog'):
        build(coco_root, metainfo=dict(classes=['dog', 'cat']))
    with pytest.raises(ValueError, match='classes in metainfo must each be there once, got several of cat'):
        build(coco_root, metainfo=dict(classes=['cat', 'person', 'cat']))


def test_get_cat_ids_supports_class_balancing(coco_root):
    dataset = build(coco_root, drop_empty=True)
    assert dataset.get_cat_ids(1) == [CAT, CAR]
    assert len(ClassBalancedDataset(dataset, oversample_thr=0.9)) > len(dataset)


@pytest.mark.parametrize('serialize_data', [True, False])
def test_indices_subsets_and_lazy_loading_work_as_in_mmengine(coco_root, serialize_data):
    assert list(labels(build(coco_root, indices=2, serialize_data=serialize_data))) == [9, 5]
    lazy = build(coco_root, lazy_init=True, serialize_data=serialize_data)
    assert lazy.CLASSES is None
    lazy.full_init()
    assert lazy.CLASSES == ('cat', 'car', 'person')
    assert list(labels(lazy.get_subset([3, 1]))) == [12, 5]
    assert labels(pickle.loads(pickle.dumps(lazy))) == labels(lazy)
    assert len(ConcatDataset([lazy, build(coco_root, indices=[0])])) == 5


def test_nothing_is_printed(coco_root, capsys):
    build(coco_root)
    assert capsys.readouterr().out == ''


def test_it_builds_from_the_registry_with_a_plain_prefix(coco_root):
    cfg = dict(type='mmml_losses.CocoMultiLabel', ann_file='instances.json', data_root=str(coco_root))
    assert DATASETS.build(cfg | dict(data_prefix='train')).missing_files() == []
    with pytest.raises(ValueError, match="data_prefix must be a folder or have the key 'img_path'"):
        CocoMultiLabel(ann_file='instances.json', data_prefix=dict(img='train'))


def test_missing_files_are_named_before_loading(tmp_path):
    dataset = build(tmp_path, lazy_init=True)
    assert dataset.missing_files() == [str(tmp_path / 'instances.json'), str(tmp_path / 'train')]
    with pytest.raises(MissingDataError) as caught:
        dataset.full_init()
    for part in ('CocoMultiLabel', *dataset.missing_files()):
        assert part in str(caught.value)
    assert caught.value.missing == dataset.missing_files()
    assert isinstance(caught.value, FileNotFoundError)


def test_an_empty_image_folder_counts_as_missing(coco_root):
    (coco_root / 'images').mkdir()
    dataset = CocoMultiLabel('instances.json', str(coco_root), 'images', lazy_init=True)
    assert dataset.missing_files() == [str(coco_root / 'images')]


def test_missing_data_error_crosses_process_borders():
    error = pickle.loads(pickle.dumps(MissingDataError('no data', ['a', 'b'])))
    assert (str(error), error.missing) == ('no data', ['a', 'b'])


@pytest.mark.parametrize(
    ('changes', 'problem'),
    [
        (dict(categories=None), "it has no 'categories'"),
        (dict(images=None, annotations=None), "it has no 'images' and no 'annotations'"),
        (dict(annotations=[dict(id=1, category_id=3)]), "an entry has no 'image_id'"),
        (dict(annotations=[dict(id=1, image_id=5, category_id=4)]), r'unknown categories \[4\]'),
        (dict(images=[dict(id=5)]), "an image has no 'file_name'"),
        (dict(categories=[dict(id=3, name='cat'), dict(id=17, name='cat')]), 'several categories are called cat'),
        (dict(images=3), 'not iterable'),
        (dict(images=[dict(id=5, file_name='5.jpg', width='wide')]), "'width', 'height' and 'area' must be numbers"),
        (dict(annotations=[dict(id=1, image_id=5, category_id=3, bbox=[1, 2])]), "'bbox' must be four numbers"),
        (dict(annotations=[dict(id=1, image_id=5, category_id=3, bbox='abcd')]), "'bbox' must be four numbers"),
        (dict(annotations=[dict(id=1, image_id=5, category_id=3, bbox=[1, 2, '3', 4])]), "'bbox' must be four"),
    ],
)
def test_an_unfit_file_is_named_with_its_problem(coco_root, changes, problem):
    rewrite(coco_root, **changes)
    with pytest.raises(AnnotationError, match=rf'instances\.json is not a COCO annotation file: .*{problem}'):
        build(coco_root)


def test_areas_are_those_of_the_largest_object_as_a_fraction_of_the_image(coco_root):
    boxes = [(3, dict(area=20)), (3, dict(area=50)), (90, dict(bbox=[1, 1, 5, 2])), (17, dict(area=30)), (17, dict())]
    annotations = [dict(id=i, image_id=5, category_id=label) | box for i, (label, box) in enumerate(boxes)]
    image = dict(id=5, file_name='5.jpg', width=20, height=10)
    for order in (annotations, annotations[::-1]):
        rewrite(coco_root, images=[image], annotations=order)
        info = build(coco_root).get_data_info(0)
        assert info['gt_label'] == [CAT, CAR, PERSON]
        assert info['label_areas'] == pytest.approx([0.25, float('nan'), 0.05], nan_ok=True)


def test_an_id_that_appears_twice_is_named(coco_root):
    rewrite(coco_root, categories=[*CATEGORIES, dict(id=3, name='dog')])
    with pytest.raises(AnnotationError, match=r'instances\.json has the category id 3 more than once'):
        build(coco_root)
    rewrite(coco_root, images=[dict(id=5, file_name='5.jpg'), dict(id=5, file_name='other.jpg')])
    with pytest.raises(AnnotationError, match=r'instances\.json has the image id 5 more than once'):
        build(coco_root)


@pytest.mark.parametrize(
    'name',
    [
        *('../secret.jpg', '/etc/passwd', 'a/../../b.jpg', 'C:\\b.jpg', '..\\b.jpg', 'a\0.jpg', ''),
        'http://host/secret.jpg',
    ],
)
def test_images_cannot_lie_outside_of_their_folder(coco_root, name):
    rewrite(coco_root, images=[dict(id=5, file_name=name)], annotations=[])
    with pytest.raises(AnnotationError, match=r'instances\.json must name images by paths below the folder'):
        build(coco_root)


@pytest.mark.parametrize('content', ['', '{"images": [', '[1, 2]', '\x00'])
def test_a_broken_file_is_named(coco_root, content):
    (coco_root / 'instances.json').write_text(content)
    with pytest.raises(AnnotationError, match=r'instances\.json is not a COCO annotation file'):
        build(coco_root)


def test_items_go_through_the_pipeline_of_mmpretrain(coco_root):
    pytest.importorskip('mmpretrain')
    pipeline = [dict(type='LoadImageFromFile'), dict(type='mmpretrain.PackInputs')]
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        dataset = build(coco_root, pipeline=pipeline, test_mode=True)
    item = dataset[1]
    assert item['inputs'].shape == (3, 10, 12)
    assert item['data_samples'].gt_label.tolist() == [CAT, PERSON]
    assert item['data_samples'].sample_idx == 1
    assert dataset[0]['data_samples'].gt_label.tolist() == []


@pytest.mark.parametrize('year', [2014, 2017])
def test_the_configs_read_it_and_a_missing_image_is_named(coco_root, year):
    (coco_root / 'annotations').mkdir()
    content = coco_content()
    # COCO has 80 categories, most of which the few images do not show.
    others = [dict(id=100 + number, name=f'class {number}') for number in range(77)]
    content['categories'] = [*CATEGORIES, *others]
    for split in ('train', 'val'):
        (coco_root / 'annotations' / f'instances_{split}{year}.json').write_text(json.dumps(content))
        shutil.copytree(coco_root / 'train', coco_root / f'{split}{year}')
    train, test = datasets_of_config(f'coco{year}', coco_root)
    assert len(train) == len(test) == 3  # those with a label
    assert train[0]['data_samples'].gt_label.tolist() == [CAT, PERSON]
    assert train[0]['inputs'].shape == (3, 224, 224)
    gone = coco_root / f'val{year}' / 'COCO_train2014_000000000005.jpg'
    assert test.get_data_info(0)['img_path'] == str(gone)
    gone.unlink()
    with pytest.raises(FileNotFoundError, match=gone.name):
        test[0]


BOXES = [
    (5, 90, 0, [1, 2, 3, 4]),
    (5, 3, 0, [0, 0, 12, 10]),
    (5, 17, 1, [2, 2, 4, 4]),
    (5, 3, 0, [0, 0, 0.5, 9]),  # less than a pixel wide
    (5, 3, 0, [12, 0, 3, 3]),  # outside the image
    (5, 3, 0, [-2, 4, 3, 3]),
    (5, 17, 0, [3, 3, 4, 4], dict(area=0)),  # an outline without a pixel
    (5, 17, 0, [3, 3, 4, 4], dict(ignore=1)),
]


def write_boxes(root):
    annotations = [
        dict(id=number, image_id=image, category_id=label, iscrowd=crowd, bbox=bbox, area=bbox[2] * bbox[3])
        | dict(*more)
        for number, (image, label, crowd, bbox, *more) in enumerate(BOXES, start=1)
    ]
    images = [dict(id=number, file_name=f'{number}.jpg', width=12, height=10) for number in (9, 5)]
    rewrite(root, images=images, annotations=annotations)


def test_boxes_come_where_asked_for(coco_root):
    write_boxes(coco_root)
    assert 'instances' not in build(coco_root)[1]
    empty, full = build(coco_root, with_boxes=True)
    assert (empty['instances'], empty['gt_label']) == ([], [])
    assert (full['width'], full['height'], full['gt_label']) == (12, 10, [CAT, CAR, PERSON])
    assert full['instances'] == [
        dict(bbox=[1, 2, 4, 6], bbox_label=PERSON, ignore_flag=0),
        dict(bbox=[0, 0, 12, 10], bbox_label=CAT, ignore_flag=0),
        dict(bbox=[2, 2, 6, 6], bbox_label=CAR, ignore_flag=1),
        dict(bbox=[-2, 4, 1, 7], bbox_label=CAT, ignore_flag=0),
    ]


@pytest.mark.needs_mmdet
def test_boxes_are_those_of_mmdetection(coco_root):
    write_boxes(coco_root)
    metainfo = dict(classes=('person', 'cat', 'car'))  # in the order of the file, which MMDetection goes by
    theirs = pytest.importorskip('mmdet.datasets').CocoDataset(
        ann_file='instances.json',
        data_root=str(coco_root),
        data_prefix=dict(img='train'),
        metainfo=metainfo,
        pipeline=[],
    )
    ours = build(coco_root, with_boxes=True, metainfo=metainfo)
    assert len(ours) == len(theirs)
    for item, expected in zip(ours, theirs, strict=True):
        for key in ('img_id', 'img_path', 'height', 'width', 'instances', 'sample_idx'):
            assert item[key] == expected[key]


@pytest.mark.parametrize(
    'changes',
    [
        dict(images=[dict(id=5, file_name='5.jpg')]),
        dict(annotations=[dict(id=1, image_id=5, category_id=3, area=4)]),
        dict(annotations=[dict(id=1, image_id=5, category_id=3, area=4, bbox=[1, 2])]),
        dict(annotations=[dict(id=1, image_id=5, category_id=3, area=4, bbox=[1, 2, '3', 4])]),
    ],
)
def test_boxes_that_cannot_be_read_are_named(coco_root, changes):
    write_boxes(coco_root)
    rewrite(coco_root, **changes)
    build(coco_root)
    with pytest.raises(AnnotationError, match=r'must have the width and height of image 5 and a bbox of four numbers'):
        build(coco_root, with_boxes=True)
