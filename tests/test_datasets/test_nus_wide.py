from pathlib import Path

import pytest
from mmengine.registry import DefaultScope

import mmml_losses  # noqa: F401 (repairs the import of torchvision that mmpretrain needs)
from mmml_losses.datasets import NUSWIDE, AnnotationError, MissingDataError
from mmml_losses.datasets.readers.nus_wide import NUS_WIDE_CONCEPTS
from mmml_losses.registry import DATASETS
from tests.helpers.base_config import datasets_of_config
from tests.helpers.published.nus_wide import TABLE, TEST, TRAIN, write_nus, write_nus_table, write_official

CLOUDS, OCEAN, SKY = (NUS_WIDE_CONCEPTS.index(name) for name in ('clouds', 'ocean', 'sky'))


@pytest.fixture
def nus_root(tmp_path: Path) -> Path:
    return write_nus(tmp_path)


@pytest.fixture
def table_root(tmp_path: Path) -> Path:
    return write_nus_table(tmp_path)


def labels(dataset) -> dict[str, list[int]]:
    infos = [dataset.get_data_info(i) for i in range(len(dataset))]
    return {info['img_id']: info['gt_label'] for info in infos}


def combined(root: Path, split: str, **kwargs) -> NUSWIDE:
    return NUSWIDE(str(root), split, 'combined', **dict(dict(train_images=3), **kwargs))


def many(root: Path) -> None:
    """Hundreds of images, of which the folder has the first one alone."""
    write_official(root, 'Train', {f'actor\\{i:04d}_1.jpg': ['sky'] for i in range(200)} | TRAIN)
    write_official(root, 'Test', {f'zoos\\{i:04d}_2.jpg': ['ocean'] for i in range(100)} | TEST)


def test_the_official_split(nus_root):
    train = NUSWIDE(str(nus_root), 'train')
    assert train.CLASSES == NUS_WIDE_CONCEPTS
    assert len(train.CLASSES) == 81
    assert train[0] == dict(
        img_path=str(nus_root / 'Flickr' / 'actor' / '0001_2124494179.jpg'),
        gt_label=[CLOUDS, SKY],
        img_id='actor/0001_2124494179.jpg',
        sample_idx=0,
    )
    assert list(labels(train).values()) == [[CLOUDS, SKY], [], [OCEAN]]
    assert list(labels(NUSWIDE(str(nus_root), 'train', drop_empty=True)).values()) == [[CLOUDS, SKY], [OCEAN]]
    assert list(labels(NUSWIDE(str(nus_root), 'test')).values()) == [[SKY], [CLOUDS, OCEAN, SKY]]


def test_the_split_of_the_table(table_root):
    train = NUSWIDE(str(table_root), 'train', 'csv', data_prefix='')
    assert labels(train) == {'images/0001_2124494179.jpg': [CLOUDS, SKY], 'images/0847_27671995.jpg': [OCEAN]}
    assert train[0]['img_path'] == str(table_root / 'images' / '0001_2124494179.jpg')
    test = NUSWIDE(str(table_root), 'test', 'csv', data_prefix='')
    assert labels(test) == {'images/0003_215199422.jpg': [CLOUDS, SKY]}


def test_an_image_without_labels_in_the_table(table_root):
    path = table_root / 'nus_wid_data.csv'
    path.write_text(TABLE.replace("['ocean']", '[]'))
    assert labels(NUSWIDE(str(table_root), 'train', 'csv', data_prefix=''))['images/0847_27671995.jpg'] == []


def test_the_combined_split_is_drawn_once_for_both_parts(nus_root):
    many(nus_root)
    train, test = (labels(combined(nus_root, split, train_images=205)) for split in ('train', 'test'))
    assert (len(train), len(test)) == (205, 100)
    together = labels(NUSWIDE(str(nus_root), 'train')) | labels(NUSWIDE(str(nus_root), 'test'))
    assert train | test == together
    assert train.keys().isdisjoint(test)
    # Images of both official lists in both parts, in the order of the lists.
    assert {name.split('/')[0] for name in train} == {name.split('/')[0] for name in test} == {'actor', 'zoos'}
    assert list(train) == [name for name in together if name in train]
    assert train == labels(combined(nus_root, 'train', train_images=205))
    assert train != labels(combined(nus_root, 'train', train_images=205, seed=1))


def test_the_draw_belongs_to_the_names(nus_root):
    """Written down: another version of Python or NumPy must give the same split."""
    drawn = ['zoos/0847_27671995.jpg', 'zoos/0848_1.jpg']
    assert list(labels(combined(nus_root, 'test'))) == drawn
    write_official(nus_root, 'Train', dict(reversed(TRAIN.items())))
    assert sorted(labels(combined(nus_root, 'test'))) == drawn


def test_only_images_that_are_there_and_have_labels_take_part_in_the_draw(nus_root):
    many(nus_root)
    parts = [labels(combined(nus_root, split, skip_missing=True, drop_empty=True)) for split in ('train', 'test')]
    assert [len(part) for part in parts] == [3, 1]
    names = {name.replace('\\', '/') for name, concepts in (TRAIN | TEST).items() if concepts}
    assert parts[0].keys() | parts[1].keys() == names


def test_a_list_can_replace_the_draw(nus_root):
    (nus_root / 'mine.txt').write_text('zoos/0848_1.jpg\nactor\\0001_2124494179.jpg\n')
    dataset = combined(nus_root, 'train', split_file='mine.txt')
    assert labels(dataset) == {
        'zoos/0848_1.jpg': [CLOUDS, OCEAN, SKY],
        'actor/0001_2124494179.jpg': [CLOUDS, SKY],
    }


def test_classes_can_be_chosen_and_renamed(nus_root):
    dataset = NUSWIDE(str(nus_root), metainfo=dict(classes=['sky', 'ocean']))
    assert list(labels(dataset).values()) == [[0], [], [1]]
    (nus_root / 'concepts.txt').write_text('ocean\r\nclouds\r\n')
    dataset = NUSWIDE(str(nus_root), concepts_file='concepts.txt')
    assert (dataset.CLASSES, dataset[0]['gt_label']) == (('ocean', 'clouds'), [1])
    with pytest.raises(ValueError, match='classes in metainfo must be classes of NUSWIDE, got ufo'):
        NUSWIDE(str(nus_root), metainfo=dict(classes=['ufo']))
    (nus_root / 'concepts.txt').write_text('ocean\nocean\n')
    with pytest.raises(AnnotationError, match=r"concepts\.txt has the concept 'ocean' more than once"):
        NUSWIDE(str(nus_root), concepts_file='concepts.txt')


def test_the_configs_read_it(nus_root, table_root):
    train, test = datasets_of_config('nus_wide', table_root)
    assert (len(train), len(test)) == (2, 1)
    many(nus_root)
    train, test = datasets_of_config('nus_wide_150k', nus_root, train_images=3)
    assert (len(train), len(test)) == (3, 2)
    assert test[0]['inputs'].shape == (3, 448, 448)
    with pytest.raises(ValueError, match=r'train_images must be between 1 and 4, as .* 5 images .* got 150000'):
        datasets_of_config('nus_wide_150k', nus_root)


def test_it_builds_from_the_registry_lazily(nus_root):
    cfg = dict(type='mmml_losses.NUSWIDE', data_root=str(nus_root), split='test', lazy_init=True)
    assert DATASETS.build(cfg).missing_files() == []


@pytest.mark.parametrize(('argument', 'value'), [('split', 'val'), ('protocol', '150k')])
def test_unknown_choices_are_rejected(argument, value):
    with pytest.raises(ValueError, match=f'{argument} must be one of .*, got {value!r}'):
        NUSWIDE('data', **{argument: value})


def test_a_list_of_images_is_for_the_combined_split():
    with pytest.raises(ValueError, match="split_file is for the protocol 'combined', got it with 'csv'"):
        NUSWIDE('data', protocol='csv', split_file='mine.txt')


def test_missing_files_are_named(tmp_path):
    dataset = combined(tmp_path, 'train', lazy_init=True, split_file='mine.txt')
    parts = ('ImageList/TrainImagelist.txt', 'ImageList/TestImagelist.txt', 'mine.txt', 'Flickr')
    expected = [str(tmp_path / part) for part in (*parts, 'Groundtruth/TrainTestLabels')]
    assert dataset.missing_files() == expected
    with pytest.raises(MissingDataError) as caught:
        dataset.full_init()
    assert caught.value.missing == expected
    table = NUSWIDE(str(tmp_path), 'test', 'csv', lazy_init=True)
    assert table.missing_files() == [str(tmp_path / 'nus_wid_data.csv'), str(tmp_path / 'Flickr')]


def test_a_missing_file_of_labels_is_named(nus_root):
    path = nus_root / 'Groundtruth' / 'TrainTestLabels' / 'Labels_sky_Test.txt'
    path.unlink()
    assert len(NUSWIDE(str(nus_root), 'train')) == 3
    with pytest.raises(
        MissingDataError, match=r'Labels_sky_Test\.txt is missing, .*TestImagelist\.txt lists'
    ) as caught:
        NUSWIDE(str(nus_root), 'test')
    assert caught.value.missing == [str(path)]


def test_a_missing_image_is_named_when_it_is_loaded(nus_root):
    (nus_root / 'Flickr' / 'actor' / '0001_2124494179.jpg').unlink()
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        dataset = NUSWIDE(str(nus_root), pipeline=[dict(type='LoadImageFromFile')], test_mode=True)
    with pytest.raises(FileNotFoundError, match=r'0001_2124494179\.jpg'):
        dataset[0]


@pytest.mark.parametrize(
    ('content', 'problem'),
    [
        ('1\n0\n', 'must have a line for each of the 3 images of .*TrainImagelist.txt, got 2'),
        ('1\n0\n0', None),
        ('1 \r\n0 \r\n0 \r\n', None),
        ('', 'must have a line for each of the 3 images of .*TrainImagelist.txt, got 0'),
        ('1\n0\n2\n', "line 3: must be 0 or 1, got '2'"),
        ('1\nsky\n0\n', "line 2: must be 0 or 1, got 'sky'"),
        ('1\n01\n0\n', "line 2: must be 0 or 1, got '01'"),
    ],
)
def test_an_unfit_file_of_labels_is_named(nus_root, content, problem):
    (nus_root / 'Groundtruth' / 'TrainTestLabels' / 'Labels_sky_Train.txt').write_bytes(content.encode())
    if problem is None:
        assert NUSWIDE(str(nus_root))[0]['gt_label'] == [CLOUDS, SKY]
    else:
        with pytest.raises(AnnotationError, match=rf'Labels_sky_Train\.txt,? {problem}'):
            NUSWIDE(str(nus_root))


@pytest.mark.parametrize('name', ['..\\secret.jpg', 'actor\\..\\..\\secret.jpg', '\\secret.jpg', 'C:\\secret.jpg'])
def test_a_name_cannot_leave_the_folder(nus_root, name):
    write_official(nus_root, 'Train', {name: ['sky']})
    with pytest.raises(AnnotationError, match=r'TrainImagelist\.txt must name images by paths below'):
        NUSWIDE(str(nus_root))


def test_a_repeated_image_is_rejected(nus_root):
    write_official(nus_root, 'Test', {'actor\\0001_2124494179.jpg': ['sky']})
    with pytest.raises(AnnotationError, match=r'Imagelist\.txt has the image .*0001_2124494179\.jpg. more than once'):
        combined(nus_root, 'train')


@pytest.mark.parametrize(
    ('lines', 'problem'),
    [
        ('actor/0009_1.jpg', 'mine.txt, line 1: actor/0009_1.jpg is not in the official lists'),
        ('zoos/0848_1.jpg\n\nzoos/0848_1.jpg', "mine.txt has the image 'zoos/0848_1.jpg' more than once"),
    ],
)
def test_an_unfit_list_of_images_is_named(nus_root, lines, problem):
    (nus_root / 'mine.txt').write_text(lines)
    with pytest.raises(AnnotationError, match=problem):
        combined(nus_root, 'train', split_file='mine.txt')


@pytest.mark.parametrize(
    ('before', 'after', 'problem'),
    [
        ('split_name', 'part', 'must have the columns filepath, label, split_name'),
        (
            "['ocean']",
            "\"['ufo', 'elf']\"",
            r"line 3, label .*\[\] for none.*: there is no class 'ufo', 'elf' in NUSWIDE",
        ),
        ("['ocean']", "['']", "line 3, label .*: there is no class ''"),
        ("['ocean']", '', "line 3, label .*: there is no class ''"),
        ("['ocean'],train\n", "['ocean'],trai\n", 'line 3: split_name must be one of .*, got .trai.'),
        ("['ocean'],train\n", "['ocean'\n", 'line 3: a row must have 4 columns, got 3'),
        ('0847_27671995', '0001_2124494179', 'line 3: images/0001_2124494179.jpg is there more than once'),
        ('images/0847', '../images/0847', 'line 3 must name images by paths below the folder'),
    ],
)
def test_an_unfit_table_is_named(table_root, before, after, problem):
    assert before in TABLE
    (table_root / 'nus_wid_data.csv').write_text(TABLE.replace(before, after))
    with pytest.raises(AnnotationError, match=rf'nus_wid_data\.csv,? {problem}'):
        NUSWIDE(str(table_root), 'train', 'csv', data_prefix='')
