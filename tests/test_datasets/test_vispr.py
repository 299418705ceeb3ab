import json
from pathlib import Path

import pytest

import mmml_losses  # noqa: F401 (repairs the import of torchvision that mmpretrain needs)
from mmml_losses.datasets import VISPR, AnnotationError, MissingDataError
from mmml_losses.registry import DATASETS
from tests.helpers.base_config import datasets_of_config
from tests.helpers.published.vispr import IDS, write_attributes, write_vispr


@pytest.fixture
def vispr_root(tmp_path: Path) -> Path:
    return write_vispr(tmp_path / 'vispr')


def build(root: Path, ann_file='train2017.txt', **kwargs) -> VISPR:
    return VISPR(ann_file, str(root), **kwargs)


def labels(dataset) -> dict[str, list[int]]:
    infos = [dataset.get_data_info(idx) for idx in range(len(dataset))]
    return {info['img_id']: info['gt_label'] for info in infos}


def change(root: Path, **changes) -> None:
    path = root / 'annotations/train2017/2017_10038160.json'
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_a_list_is_read_in_its_order(vispr_root):
    dataset = build(vispr_root)
    assert list(dataset.CLASSES) == IDS
    assert dataset[0] == dict(
        img_path=str(vispr_root / 'images/train2017/2017_10011466.jpg'),
        img_id='2017_10011466',
        gt_label=[0],
        sample_idx=0,
    )
    assert labels(dataset) == {'2017_10011466': [0], '2017_10038160': [1, 2, 3]}


def test_several_lists_make_one_dataset(vispr_root):
    dataset = build(vispr_root, ['train2017.txt', 'val2017.txt'])
    assert labels(dataset) == {'2017_10011466': [0], '2017_10038160': [1, 2, 3], '2017_22222222': [67]}
    with pytest.raises(ValueError, match='ann_file must have at least one entry'):
        build(vispr_root, [])


def test_a_folder_replaces_a_list_of_its_annotations(vispr_root):
    dataset = build(vispr_root, 'annotations/train2017')
    assert labels(dataset) == labels(build(vispr_root))
    (vispr_root / 'annotations/other').mkdir()
    lazy = build(vispr_root, 'annotations/other', lazy_init=True)
    assert lazy.missing_files() == [str(vispr_root / 'annotations/other')]
    (vispr_root / 'annotations/other/readme.md').write_text('none')
    with pytest.raises(MissingDataError, match='other has no annotation'):
        lazy.full_init()


def test_classes_can_be_chosen(vispr_root):
    dataset = build(vispr_root, metainfo=dict(classes=['a9_kind', 'a0_safe']), drop_empty=True)
    assert labels(dataset) == {'2017_10011466': [1], '2017_10038160': [0]}
    with pytest.raises(ValueError, match=r'classes of .*attributes\.tsv, got a105_merged'):
        build(vispr_root, metainfo=dict(classes=['a105_merged']))


def test_a_later_table_is_read_where_the_released_one_is_missing(vispr_root):
    change(vispr_root, labels=['a4_gender', 'a105_merged'])
    later = vispr_root / 'attributes_v2.tsv'
    rows = [f'{index}\t{name}\tin words' for index, name in enumerate(IDS)]
    write_attributes(later, ['idx\tattribute_id\tdescription', '\ta105_merged\tno class', *rows])
    with pytest.raises(AnnotationError, match=r"no class 'a105_merged' in .*attributes\.tsv"):
        build(vispr_root)
    assert labels(build(vispr_root, attribute_file='attributes_v2.tsv'))['2017_10038160'] == [2]
    (vispr_root / 'attributes.tsv').unlink()
    dataset = build(vispr_root)
    # An attribute without a number is no class.
    assert list(dataset.CLASSES) == IDS
    assert labels(dataset)['2017_10038160'] == [2]


def test_missing_files_are_named(vispr_root, tmp_path):
    dataset = build(tmp_path / 'none', lazy_init=True)
    names = ('attributes.tsv', 'train2017.txt', '')
    assert list(map(Path, dataset.missing_files())) == [tmp_path / 'none' / name for name in names]
    (vispr_root / 'annotations/train2017/2017_10038160.json').unlink()
    with pytest.raises(MissingDataError, match=r'train2017\.txt, line 2: .*2017_10038160\.json does not exist'):
        build(vispr_root)


@pytest.mark.parametrize(
    ('changes', 'problem'),
    [
        (dict(labels=[]), " must have 'labels', a list of at least one attribute_id, got \\[\\]"),
        (dict(labels=None), " must have 'labels', .* got None"),
        (dict(labels='a0_safe'), ", labels: must be a list of classes, got 'a0_safe'"),
        (dict(labels=[4]), r', labels: there is no class 4 in .*attributes\.tsv'),
        (dict(labels=['a0_safe', 'a7_new']), r", labels: there is no class 'a7_new' in .*attributes\.tsv"),
        (dict(image_path='../1.jpg'), r" must name images by paths below the folder of the images, got '\.\./1\.jpg'"),
        (dict(image_path=None), ' must name images by paths'),
        (dict(image_path='images/train2017/2017_10011466.jpg'), r' is about .*, as .*2017_10011466\.json is'),
    ],
)
def test_an_unfit_annotation_is_named(vispr_root, changes, problem):
    change(vispr_root, **changes)
    with pytest.raises(AnnotationError, match=rf'2017_10038160\.json{problem}'):
        build(vispr_root)


def test_a_truncated_annotation_is_named(vispr_root):
    path = vispr_root / 'annotations/train2017/2017_10038160.json'
    path.write_text(path.read_text()[:30])
    with pytest.raises(AnnotationError, match=r'2017_10038160\.json is not a json file'):
        build(vispr_root)


@pytest.mark.parametrize('line', ['../secret.json', '/etc/passwd', 'annotations/../../x.json', '..\\x.json'])
def test_a_list_cannot_lead_out_of_the_data_root(vispr_root, line):
    (vispr_root / 'train2017.txt').write_text(f'annotations/train2017/2017_10011466.json\n{line}\n')
    with pytest.raises(AnnotationError, match=r'train2017\.txt, line 2: must be a path below'):
        build(vispr_root)


def test_a_list_with_an_annotation_twice_or_none_is_rejected(vispr_root):
    path = vispr_root / 'train2017.txt'
    path.write_text(path.read_text() * 2)
    with pytest.raises(AnnotationError, match=r'2017_10011466\.json is about .*, as .*2017_10011466\.json is'):
        build(vispr_root)
    path.write_text('\n')
    with pytest.raises(AnnotationError, match=r'train2017\.txt must have samples'):
        build(vispr_root)


@pytest.mark.parametrize(
    ('table', 'problem'),
    [
        ('idx\tname\n0\ta0_safe\n', 'must have the columns idx, attribute_id'),
        ('', 'must have the columns'),
        ('idx\tattribute_id\n0\ta0_safe\n0\ta1_age\n', 'has the idx 0 more than once'),
        ('idx\tattribute_id\n0\ta0_safe\n1\ta0_safe\n', "has the attribute_id 'a0_safe' more than once"),
        ('idx\tattribute_id\nx\ta0_safe\n', 'line 2: must have a number or nothing, and an id'),
        ('idx\tattribute_id\n0\ta0_safe\n1\n', 'line 3: a row must have 2 columns, got 1'),
        ('idx\tattribute_id\n\ta0_safe\n', 'has no attribute with an idx'),
    ],
)
def test_an_unfit_table_of_attributes_is_named(vispr_root, table, problem):
    (vispr_root / 'attributes.tsv').write_text(table)
    with pytest.raises(AnnotationError, match=rf'attributes\.tsv.*{problem}'):
        build(vispr_root)


def test_the_config_reads_images_and_names_a_missing_one(vispr_root):
    train, test = datasets_of_config('vispr', vispr_root)
    assert (len(train), len(test)) == (3, 1)
    assert train[2]['inputs'].shape == (3, 224, 224)
    assert train[2]['data_samples'].gt_label.tolist() == [67]
    (vispr_root / 'images/test2017/2017_33333333.jpg').unlink()
    with pytest.raises(FileNotFoundError, match=r'2017_33333333\.jpg'):
        test[0]


def test_it_builds_from_the_registry(vispr_root):
    cfg = dict(type='mmml_losses.VISPR', ann_file='val2017.txt', data_root=str(vispr_root))
    assert DATASETS.build(cfg).missing_files() == []
