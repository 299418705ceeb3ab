from pathlib import Path

import pytest
from mmengine.registry import DefaultScope

import mmml_losses  # noqa: F401 (repairs the import of torchvision that mmpretrain needs)
from mmml_losses.datasets import AnnotationError, ImageNetMultiLabel, MissingDataError
from mmml_losses.registry import DATASETS
from tests.helpers.base_config import datasets_of_config
from tests.helpers.published.imagenet import BIRD, MACHINE, TENCH, TRAIN, write_images

VAL = ['ILSVRC2012_val_00000001.JPEG', 'ILSVRC2012_val_00000002.JPEG']
# Two classes of ImageNet are both called crane.
SYNSETS = f'{TENCH} tench, Tinca tinca\n{BIRD} crane\n{MACHINE} crane\n'


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    """Make a folder for each class, with a file in it that is no image."""
    write_images(tmp_path / 'train', TRAIN)
    (tmp_path / 'train' / TENCH / '.listing').touch()
    (tmp_path / 'train' / 'readme.txt').touch()
    (tmp_path / 'synset_words.txt').write_text(SYNSETS)
    return tmp_path


@pytest.fixture
def lists(tmp_path: Path) -> Path:
    write_images(tmp_path / 'train', TRAIN)
    write_images(tmp_path / 'val', VAL)
    (tmp_path / 'meta').mkdir()
    indices = {TENCH: 0, BIRD: 1, MACHINE: 2}
    lines = [f'{path} {indices[path.split("/")[0]]}' for path in reversed(TRAIN)]
    (tmp_path / 'meta' / 'train.txt').write_text('\n'.join(lines) + '\n')
    (tmp_path / 'meta' / 'val.txt').write_text(f'{VAL[0]} 2\n{VAL[1]} 0\n')
    (tmp_path / 'synset_words.txt').write_text(SYNSETS)
    return tmp_path


def labels(dataset) -> dict[str, list[int]]:
    infos = [dataset.get_data_info(i) for i in range(len(dataset))]
    return {info['img_id']: info['gt_label'] for info in infos}


def with_list(root: Path, split: str = 'train', **kwargs) -> ImageNetMultiLabel:
    return ImageNetMultiLabel(str(root), split, classes_file='synset_words.txt', **kwargs)


def test_folders_are_classes(folders):
    dataset = ImageNetMultiLabel(str(folders))
    assert dataset.CLASSES == (TENCH, BIRD, MACHINE)
    assert dataset[0] == dict(
        img_path=str(folders / 'train' / TRAIN[0]), gt_label=[0], img_id='n01440764_10026', sample_idx=0
    )
    assert labels(dataset) == {f'{TENCH}_10026': [0], f'{TENCH}_9': [0], f'{BIRD}_1': [1], f'{MACHINE}_2': [2]}


def test_a_list_gives_indices(lists):
    dataset = with_list(lists, 'val')
    assert ('tench, Tinca tinca', f'crane ({BIRD})', f'crane ({MACHINE})') == dataset.CLASSES
    assert labels(dataset) == {'ILSVRC2012_val_00000001': [2], 'ILSVRC2012_val_00000002': [0]}
    assert list(labels(with_list(lists))) == [f'{MACHINE}_2', f'{BIRD}_1', f'{TENCH}_9', f'{TENCH}_10026']
    (lists / 'other.txt').write_text(f'{TRAIN[0]} 1\n')
    assert labels(with_list(lists, ann_file='other.txt')) == {f'{TENCH}_10026': [1]}


@pytest.mark.parametrize('layout', ['folders', 'lists'])
def test_paths_and_labels_are_those_of_mmpretrain(layout, request):
    root = request.getfixturevalue(layout)
    classes = (TENCH, BIRD, MACHINE)
    datasets = pytest.importorskip('mmpretrain.datasets')
    theirs = datasets.ImageNet(str(root), split='train', metainfo=dict(classes=classes))
    ours = ImageNetMultiLabel(str(root), 'train', metainfo=dict(classes=classes))
    pairs = [[(info['img_path'], info['gt_label']) for info in dataset] for dataset in (theirs, ours)]
    assert [(path, [label]) for path, label in pairs[0]] == pairs[1]
    assert list(ours.CLASSES) == theirs.CLASSES or theirs.CLASSES == ours.CLASSES


def test_the_other_classes_can_be_unknown(folders):
    assert 'gt_score' not in ImageNetMultiLabel(str(folders))[0]
    dataset = ImageNetMultiLabel(str(folders), others='unknown')
    assert dataset[2]['gt_score'].tolist() == [-1, 1, -1]
    assert dataset[2]['gt_label'] == [1]


def test_names_and_order_come_from_the_list_of_classes(folders):
    (folders / 'synset_words.txt').write_text(f'{MACHINE} crane\nn00000001\n{TENCH} tench\n{BIRD} heron\n')
    dataset = with_list(folders)
    assert dataset.CLASSES == ('crane', 'n00000001', 'tench', 'heron')
    assert labels(dataset) == {f'{TENCH}_10026': [2], f'{TENCH}_9': [2], f'{BIRD}_1': [3], f'{MACHINE}_2': [0]}


@pytest.mark.parametrize('layout', ['folders', 'lists'])
def test_metainfo_chooses_and_orders_the_classes(layout, request):
    root = request.getfixturevalue(layout)
    dataset = with_list(root, metainfo=dict(classes=[f'crane ({MACHINE})', 'tench, Tinca tinca']))
    expected = {f'{TENCH}_10026': [1], f'{TENCH}_9': [1], f'{BIRD}_1': [], f'{MACHINE}_2': [0]}
    assert labels(dataset) == expected
    assert len(with_list(root, metainfo=dict(classes=['tench, Tinca tinca']), drop_empty=True)) == 2
    with pytest.raises(ValueError, match=r'classes in metainfo must be classes of synset_words\.txt, got crane'):
        with_list(root, metainfo=dict(classes=['crane']))


def test_the_config_reads_it(lists):
    (lists / 'classes.txt').write_text(''.join(f'n{number:08d}\n' for number in range(1000)))
    train, test = datasets_of_config('imagenet', lists, classes_file='classes.txt')
    assert (len(train), len(test)) == (4, 2)
    assert train[0]['inputs'].shape == test[0]['inputs'].shape == (3, 224, 224)
    assert test[1]['data_samples'].gt_label.tolist() == [0]


def test_it_builds_from_the_registry_lazily(folders):
    cfg = dict(type='mmml_losses.ImageNetMultiLabel', data_root=str(folders), lazy_init=True)
    assert DATASETS.build(cfg).missing_files() == []


@pytest.mark.parametrize(('argument', 'value'), [('split', 'test'), ('others', 'positive')])
def test_unknown_choices_are_rejected(argument, value):
    with pytest.raises(ValueError, match=f'{argument} must be one of .*, got {value!r}'):
        ImageNetMultiLabel('data', **{argument: value})


def test_a_list_needs_to_know_the_classes(lists):
    with pytest.raises(ValueError, match=r'in metainfo must name the classes of .*meta/train\.txt, got neither'):
        ImageNetMultiLabel(str(lists))


def test_missing_files_are_named(tmp_path):
    dataset = ImageNetMultiLabel(str(tmp_path), 'val', lazy_init=True)
    assert dataset.missing_files() == [str(tmp_path / 'val')]
    with pytest.raises(MissingDataError, match=r'ImageNetMultiLabel needs the images in .*val, seen from'):
        dataset.full_init()
    listed = with_list(tmp_path, ann_file='mine.txt', lazy_init=True)
    expected = [str(tmp_path / name) for name in ('mine.txt', 'synset_words.txt', 'train')]
    assert listed.missing_files() == expected
    with pytest.raises(MissingDataError, match='needs the annotation files') as caught:
        listed.full_init()
    assert caught.value.missing == expected


def test_a_folder_without_images_is_named(folders):
    (folders / 'train' / 'n09999999').mkdir()
    with pytest.raises(MissingDataError, match=r'n09999999 must have the images of a class, got none'):
        ImageNetMultiLabel(str(folders))


def test_images_without_folders_are_rejected(lists):
    (lists / 'meta' / 'val.txt').unlink()
    with pytest.raises(MissingDataError, match=r'val must have a folder with images for each class, got none'):
        ImageNetMultiLabel(str(lists), 'val')


def test_a_folder_of_an_unknown_class_is_named(folders):
    (folders / 'synset_words.txt').write_text(f'{TENCH} tench\n{BIRD} crane\n')
    with pytest.raises(
        AnnotationError, match=rf'train has folders of classes that .*words\.txt does not list: {MACHINE}'
    ):
        with_list(folders)


def test_a_missing_image_is_named_when_it_is_loaded(lists):
    (lists / 'val' / VAL[0]).unlink()
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        dataset = with_list(lists, 'val', pipeline=[dict(type='LoadImageFromFile')], test_mode=True)
    assert dataset[1]['img'].shape == (300, 260, 3)
    with pytest.raises(FileNotFoundError, match=VAL[0]):
        dataset[0]
    assert list(labels(with_list(lists, 'val', skip_missing=True))) == ['ILSVRC2012_val_00000002']


@pytest.mark.parametrize(
    ('line', 'problem'),
    [
        ('a.JPEG 3', ', line 3: must be a path and a class index below 3, got .a.JPEG 3'),
        ('a.JPEG -1', ', line 3: must be a path and a class index below 3'),
        ('a.JPEG tench', ', line 3: must be a path and a class index below 3'),
        ('a.JPEG', ', line 3: must be a path and a class index below 3'),
        ('2', ', line 3: must be a path and a class index below 3'),
        (f'{VAL[0]} 1', f', line 3: {VAL[0]} is there more than once'),
        ('../a.JPEG 1', ' must name images by paths below the folder'),
        ('/a.JPEG 1', ' must name images by paths below the folder'),
    ],
)
def test_an_unfit_line_is_named(lists, line, problem):
    with (lists / 'meta' / 'val.txt').open('a') as file:
        file.write(line)
    with pytest.raises(AnnotationError, match=rf'meta/val\.txt{problem}'):
        with_list(lists, 'val')


@pytest.mark.parametrize(
    ('content', 'problem'),
    [
        ('', 'must list classes, got an empty file'),
        (f'{TENCH} tench\n{TENCH} fish\n', 'has the class .* more than once'),
    ],
)
def test_an_unfit_list_of_classes_is_named(folders, content, problem):
    (folders / 'synset_words.txt').write_text(content)
    with pytest.raises(AnnotationError, match=rf'synset_words\.txt {problem}'):
        with_list(folders)
