from pathlib import Path

import cv2
import numpy as np
import pytest
from mmengine.registry import DefaultScope

import mmml_losses  # noqa: F401 (repairs the import of torchvision that mmpretrain needs)
from mmml_losses.datasets import AnnotationError, MissingDataError, OpenImages
from mmml_losses.registry import DATASETS
from tests.helpers.base_config import datasets_of_config

TORTOISE, ORANGE, PENGUIN, BAGEL = range(4)
CLASSES = ['/m/011k07', '/m/0cyhj_', '/m/05z6w', '/m/01fb_0']
# Without a header as up to version 5, with a name that has a comma in it, and with a name of two classes.
DESCRIPTIONS = """/m/011k07,Tortoise
/m/0cyhj_,Orange
/m/05z6w,"Penguin, Inc."
/m/01fb_0,Bagel
/m/0jc_p,Orange
/m/0abc,Tree
"""
# Rows of an image need not stand together; the last image has a label of a class that is not listed, only.
TABLE = """ImageID,Source,LabelName,Confidence
000026e7ee790996,verification,/m/0cyhj_,1
000026e7ee790996,verification,/m/011k07,0
0000575f5a03db70,crowdsource-verification,/m/05z6w,0
000026e7ee790996,crowdsource-verification,/m/01fb_0,1
000026e7ee790996,verification,/m/0abc,1
0000575f5a03db70,verification,/m/05z6w,1
0000575f5a03db70,verification,/m/011k07,1
0000575f5a03db70,crowdsource-verification,/m/011k07,1
000076d21abe2e6c,verification,/m/0cyhj_,0
0000cdefd08ba0a4,verification,/m/0abc,1
"""
TABLE_FILE = 'train-annotations-human-imagelabels.csv'


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / TABLE_FILE).write_text(TABLE)
    (tmp_path / 'classes-trainable.txt').write_text('\n'.join(CLASSES) + '\n')
    (tmp_path / 'class-descriptions.csv').write_text(DESCRIPTIONS)
    (tmp_path / 'train').mkdir()
    for name in ('000026e7ee790996', '000076d21abe2e6c'):
        cv2.imwrite(str(tmp_path / 'train' / f'{name}.jpg'), np.zeros((6, 8, 3), dtype=np.uint8))
    return tmp_path


def build(root: Path, **kwargs) -> OpenImages:
    arguments = dict(
        ann_file=TABLE_FILE, classes_file='classes-trainable.txt', data_root=str(root), data_prefix='train'
    )
    return OpenImages(**(arguments | kwargs))


def scores(dataset) -> dict[str, list[int]]:
    infos = [dataset.get_data_info(i) for i in range(len(dataset))]
    return {info['img_id'][:8]: info['gt_score'].astype(int).tolist() for info in infos}


def add_rows(root: Path, *rows: str) -> None:
    with (root / TABLE_FILE).open('a') as file:
        file.writelines(f'{row}\n' for row in rows)


def test_positives_negatives_and_the_rest_unknown(root):
    dataset = build(root)
    item = dataset[0]
    assert item.pop('gt_score').tolist() == [0, 1, -1, 1]
    assert item == dict(
        img_path=str(root / 'train' / '000026e7ee790996.jpg'),
        gt_label=[ORANGE, BAGEL],
        img_id='000026e7ee790996',
        sample_idx=0,
    )
    # People disagree about the penguin of the second image; nothing is known about the last one.
    assert scores(dataset) == {'000026e7': [0, 1, -1, 1], '0000575f': [1, -1, -1, -1], '000076d2': [-1, 0, -1, -1]}
    assert tuple(CLASSES) == dataset.CLASSES


def test_the_rest_can_be_negative(root):
    dataset = build(root, others='negative')
    assert scores(dataset) == {'000026e7': [0, 1, 0, 1], '0000575f': [1, 0, -1, 0], '000076d2': [0, 0, 0, 0]}
    assert len(build(root, others='negative', drop_empty=True)) == 2


def test_images_that_are_not_there_can_be_skipped(root):
    assert list(scores(build(root, skip_missing=True))) == ['000026e7', '000076d2']
    assert list(scores(build(root, skip_missing=True, drop_empty=True))) == ['000026e7']


@pytest.mark.parametrize('header', ['', 'LabelName,DisplayName\n'])
def test_names_come_from_the_descriptions(root, header):
    (root / 'class-descriptions.csv').write_text(header + DESCRIPTIONS)
    dataset = build(root, descriptions_file='class-descriptions.csv')
    assert dataset.CLASSES == ('Tortoise', 'Orange', 'Penguin, Inc.', 'Bagel')
    everything = build(root, classes_file='class-descriptions.csv')
    assert everything.CLASSES[4:] == ('Orange (/m/0jc_p)', 'Tree')
    assert everything[0]['gt_score'].tolist() == [0, 1, -1, 1, -1, 1]
    assert scores(everything)['0000cdef'] == [-1, -1, -1, -1, -1, 1]


def test_metainfo_chooses_and_orders_the_classes(root):
    names = dict(descriptions_file='class-descriptions.csv')
    dataset = build(root, **names, metainfo=dict(classes=['Bagel', 'Orange']))
    assert scores(dataset) == {'000026e7': [1, 1], '000076d2': [-1, 0]}
    with pytest.raises(ValueError, match=r'classes in metainfo must be classes of .*classes-trainable\.txt, got Tree'):
        build(root, **names, metainfo=dict(classes=['Tree']))


def test_labels_of_machines_count_from_a_confidence_on_and_never_against_people(root):
    add_rows(
        root,
        '000076d21abe2e6c,machine,/m/0cyhj_,1.0',  # a person said no
        '000076d21abe2e6c,machine,/m/05z6w,0.7',
        '000076d21abe2e6c,machine,/m/01fb_0,0.6',
        '0000575f5a03db70,machine,/m/05z6w,0.9',  # people disagree
        '0000cdefd08ba0a4,machine,/m/01fb_0,0.2',
    )
    with pytest.raises(AnnotationError, match=rf'{TABLE_FILE}, line 12: the label was made by a machine'):
        build(root)
    dataset = build(root, machine_confidence=0.7)
    assert scores(dataset) == {'000026e7': [0, 1, -1, 1], '0000575f': [1, -1, -1, -1], '000076d2': [-1, 0, 1, -1]}


def test_the_order_of_the_rows_does_not_matter_within_an_image(root):
    expected = scores(build(root))
    header, *rows = TABLE.splitlines()
    (root / TABLE_FILE).write_text('\n'.join([header, *reversed(rows)]) + '\n')
    assert scores(build(root)) == expected


def test_a_table_without_known_classes_is_rejected(root):
    header, *rows = TABLE.splitlines()
    for content in ([header], [header, rows[-1]]):
        (root / TABLE_FILE).write_text('\n'.join(content))
        with pytest.raises(AnnotationError, match=rf'{TABLE_FILE}, .* must have samples, got none'):
            build(root)


@pytest.mark.parametrize(('name', 'num_classes'), [('open_images', 9605), ('open_images_567', 567)])
def test_the_configs_read_it(root, name, num_classes):
    ids = [f'/m/0{number:04d}' for number in range(num_classes)]
    for file in ('oidv6-classes-trainable.txt', 'classes_567.txt'):
        (root / file).write_text('\n'.join(ids) + '\n')
    (root / 'oidv6-class-descriptions.csv').write_text(
        'LabelName,DisplayName\n' + ''.join(f'{identifier},class {identifier}\n' for identifier in ids)
    )
    table = f'ImageID,Source,LabelName,Confidence\n000026e7ee790996,verification,{ids[-1]},1\n'
    for split, prefix in dict(train='oidv6-train', test='test').items():
        (root / f'{prefix}-annotations-human-imagelabels.csv').write_text(table)
        (root / split).mkdir(exist_ok=True)
        cv2.imwrite(str(root / split / '000026e7ee790996.jpg'), np.zeros((6, 8, 3), dtype=np.uint8))
    train, test = datasets_of_config(name, root)
    assert train[0]['data_samples'].gt_label.tolist() == [num_classes - 1]
    assert test[0]['inputs'].shape == (3, 448, 448)
    assert test.CLASSES[-1] == f'class {ids[-1]}'


def test_it_builds_from_the_registry_lazily(root):
    cfg = dict(type='mmml_losses.OpenImages', ann_file=TABLE_FILE, classes_file='none.txt', data_root=str(root))
    dataset = DATASETS.build(cfg | dict(data_prefix='train', lazy_init=True))
    assert dataset.missing_files() == [str(root / 'none.txt')]


@pytest.mark.parametrize(
    ('arguments', 'problem'),
    [
        (dict(others='absent'), "others must be one of 'unknown', 'negative', got 'absent'"),
        (dict(machine_confidence=0), r'machine_confidence must be in \(0, 1\], got 0'),
        (dict(machine_confidence=1.5), r'machine_confidence must be in \(0, 1\], got 1.5'),
    ],
)
def test_unknown_choices_are_rejected(root, arguments, problem):
    with pytest.raises(ValueError, match=problem):
        build(root, **arguments)


def test_missing_files_are_named(tmp_path):
    dataset = build(tmp_path, descriptions_file='class-descriptions.csv', lazy_init=True)
    files = (TABLE_FILE, 'classes-trainable.txt', 'class-descriptions.csv', 'train')
    assert dataset.missing_files() == [str(tmp_path / file) for file in files]
    with pytest.raises(MissingDataError, match='OpenImages needs the annotation files') as caught:
        dataset.full_init()
    assert caught.value.missing == dataset.missing_files()


def test_a_missing_image_is_named_when_it_is_loaded(root):
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        dataset = build(root, pipeline=[dict(type='LoadImageFromFile')], test_mode=True)
    assert dataset[0]['img'].shape == (6, 8, 3)
    with pytest.raises(FileNotFoundError, match=r'0000575f5a03db70\.jpg'):
        dataset[1]


@pytest.mark.parametrize(
    ('row', 'problem'),
    [
        (
            '000026e7ee790996,verification,/m/011k07,0.5',
            'Confidence of the source verification must be 0 or 1, got 0.5',
        ),
        ('000026e7ee790996,verification,/m/011k07,', "Confidence must be a number, got ''"),
        ('000026e7ee790996,verification,/m/011k07', 'a row must have 4 columns, got 3'),
        ('000026e7ee790996,verific', 'a row must have 4 columns, got 2'),
        ('000026e7ee790996,verification,Tortoise,1', "LabelName must be an identifier such as .*, got 'Tortoise'"),
        (',verification,/m/011k07,1', 'ImageID must name an image, got nothing'),
        ('000026e7ee790996,verification,,1', "LabelName must be an identifier such as .*, got ''"),
    ],
)
def test_an_unfit_row_is_named(root, row, problem):
    add_rows(root, row)
    with pytest.raises(AnnotationError, match=rf'{TABLE_FILE}, line 12: {problem}'):
        build(root)


def test_a_wrong_confidence_of_a_machine_is_named(root):
    add_rows(root, '000026e7ee790996,machine,/m/011k07,7')
    with pytest.raises(AnnotationError, match=r'line 12: Confidence must be in \[0, 1\], got 7'):
        build(root, machine_confidence=0.5)


@pytest.mark.parametrize('image_id', ['../secret', '/secret', 'a\\..\\..\\b', 'C:b'])
def test_an_id_cannot_leave_the_folder(root, image_id):
    add_rows(root, f'{image_id},verification,/m/011k07,1')
    with pytest.raises(AnnotationError, match=rf'{TABLE_FILE} must name images by paths below the folder'):
        build(root)


def test_another_table_is_rejected(root):
    (root / TABLE_FILE).write_text('ImageID,LabelName,XMin\n')
    with pytest.raises(AnnotationError, match=rf'{TABLE_FILE} must have the columns ImageID, Source, LabelName, Conf'):
        build(root)


@pytest.mark.parametrize(
    ('content', 'problem'),
    [
        ('', 'must list classes, got an empty file'),
        ('/m/011k07\n/m/05z6w\n/m/011k07\n', "has the class '/m/011k07' more than once"),
        ('/m/011k07,\n', 'line 1: must be a class and its name'),
        ('/m/011k07,Tortoise\n,Orange\n', 'line 2: must be a class and its name'),
    ],
)
def test_an_unfit_list_of_classes_is_named(root, content, problem):
    (root / 'classes-trainable.txt').write_text(content)
    with pytest.raises(AnnotationError, match=rf'classes-trainable\.txt,? {problem}'):
        build(root)


def test_a_class_without_description_is_named(root):
    (root / 'classes-trainable.txt').write_text('/m/011k07\n/m/zzz\n')
    with pytest.raises(AnnotationError, match=r'trainable\.txt lists classes that .*descriptions\.csv has not: /m/zzz'):
        build(root, descriptions_file='class-descriptions.csv')
