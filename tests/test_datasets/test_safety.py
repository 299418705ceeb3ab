"""What files from elsewhere cannot do: run code, unpack themselves, or name images outside of their folder."""

import ast
import inspect
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from mmengine.registry import DATASETS as MMENGINE_DATASETS
from PIL import Image

from mmml_losses.datasets import AnnotationError
from mmml_losses.datasets.readers.annotation_files import read_lines
from mmml_losses.datasets.readers.nus_wide import NUS_WIDE_CONCEPTS
from mmml_losses.datasets.readers.reader import MultiLabelReader
from mmml_losses.registry import DATASETS

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted(file for folder in ('mmml_losses', 'tools') for file in (ROOT / folder).rglob('*.py'))

# Modules that read a file by running what it says, or that unpack archives to paths of the archive's choice.
MODULES = {'cPickle', 'cloudpickle', 'dill', 'joblib', 'jsonpickle', 'marshal', 'shelve', 'tarfile'}
# What names of pickle do no harm.
HARMLESS = {'pickle', 'pickle.PickleError', 'pickle.PicklingError', 'pickle.UnpicklingError'}
BUILTINS = {'__import__', 'compile', 'eval', 'exec'}
FUNCTIONS = {
    *('mmengine.load', 'mmengine.fileio.load', 'mmengine.runner.load_checkpoint', 'pandas.read_pickle'),
    *('torch.hub.load', 'torch.hub.load_state_dict_from_url', 'torch.jit.load', 'yaml.load', 'yaml.unsafe_load'),
}
METHODS = {'extract', 'extractall', 'load_checkpoint', 'read_pickle', 'unpack_archive'}
# Functions that are safe with an argument, which must be written out.
ARGUMENTS = {
    'numpy.lib.format.read_array': ('allow_pickle', False),
    'numpy.load': ('allow_pickle', False),
    'torch.load': ('weights_only', True),
}

ALLOWED = {
    (
        'mmml_losses/datasets/labels/data_infos.py',
        'pickle.loads',
    ): 'memory in which MMEngine keeps data infos; no file',
    ('mmml_losses/procedures/feature_model.py', '.load_checkpoint'): 'of a file that safe_checkpoint has checked',
    ('tools/calibrate.py', '.load_checkpoint'): 'of a file that safe_checkpoint has checked',
}


def risks(source: str) -> Iterator[tuple[int, str]]:
    """Places of a Python source that read what they should not, as line and name."""
    tree = ast.parse(source)
    names = dict(_imported_names(tree))
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from ((node.lineno, name) for name in _modules_of(node) if name.split('.')[0] in MODULES)
            continue
        if isinstance(node, ast.Call):
            name, wanted = _full_name(node.func, names), ARGUMENTS.get(_full_name(node.func, names))
            given = {keyword.arg: getattr(keyword.value, 'value', None) for keyword in node.keywords}
            if wanted and given.get(wanted[0]) is not wanted[1]:
                yield node.lineno, name
            if isinstance(node.func, ast.Name) and node.func.id in BUILTINS and node.func.id not in names:
                yield node.lineno, node.func.id
        if isinstance(node, (ast.Attribute, ast.Name)):
            name = _full_name(node, names)
            if name in FUNCTIONS or (name.split('.')[0] == 'pickle' and name not in HARMLESS):
                yield node.lineno, name
            elif isinstance(node, ast.Attribute) and node.attr in METHODS:
                yield node.lineno, f'.{node.attr}'


def _imported_names(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Names in a source, and what they stand for."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((each.asname or each.name.split('.')[0], each.asname and each.name) for each in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield from ((each.asname or each.name, f'{node.module}.{each.name}') for each in node.names)


def _modules_of(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.ImportFrom):
        return [node.module] if node.module and not node.level else []
    return [each.name for each in node.names]


def _full_name(node: ast.AST, names: dict[str, str | None]) -> str:
    """Return the dotted name of an expression, with imported names in full."""
    if isinstance(node, ast.Name):
        return names.get(node.id) or node.id
    return f'{_full_name(node.value, names)}.{node.attr}' if isinstance(node, ast.Attribute) else '?'


@pytest.mark.parametrize(
    'source',
    [
        'import pickle\npickle.load(file)',
        'import pickle as p\np.loads(text)',
        'from pickle import Unpickler\nUnpickler(file)',
        'def read():\n    from pickle import load\n    return map(load, files)',
        'import pickle\nclass Reader(pickle.Unpickler): pass',
        'import joblib',
        'from dill import load',
        'import numpy as np\nnp.load(path)',
        'import numpy as np\nnp.load(path, allow_pickle=True)',
        'import numpy as np\nnp.load(path, allow_pickle=trusted)',
        'import numpy\nnumpy.lib.format.read_array(file)',
        'import torch\ntorch.load(path)',
        'from torch import load\nload(path, weights_only=False)',
        'import torch\ntorch.hub.load(name)',
        'eval(text)',
        'exec(text)',
        'import tarfile',
        'import zipfile\nzipfile.ZipFile(path).extractall()',
        'from zipfile import ZipFile\nwith ZipFile(path) as archive:\n    archive.extract(name)',
        'import shutil\nshutil.unpack_archive(path)',
        'import mmengine\nmmengine.load(path)',
        'from mmengine.fileio import load\nload(path)',
        'from mmengine.runner import load_checkpoint\nload_checkpoint(model, path)',
        'runner.load_checkpoint(path)',
        'import yaml\nyaml.load(file)',
    ],
)
def test_the_search_finds(source):
    assert list(risks(source))


@pytest.mark.parametrize(
    'source',
    [
        'import pickle\ntry: pass\nexcept pickle.UnpicklingError: pass',
        'import numpy as np\nnp.load(path, allow_pickle=False)',
        'import torch\ntorch.load(path, map_location="cpu", weights_only=True)',
        'model.eval()',
        'import re\nre.compile(text)',
        'import json\njson.load(file)',
        'from .files import load\nload(path)',
        'import zipfile\nzipfile.ZipFile(path).open(name)',
    ],
)
def test_the_search_leaves_alone(source):
    assert not list(risks(source))


def test_nothing_reads_pickles_or_unpacks_archives():
    assert len(SOURCES) > 50
    found = [
        (file.relative_to(ROOT).as_posix(), line, name)
        for file in SOURCES
        for line, name in risks(file.read_text(encoding='utf-8'))
    ]
    assert [place for place in found if (place[0], place[2]) not in ALLOWED] == []
    assert set(ALLOWED) == {(file, name) for file, _, name in found}, 'an exception that is no longer needed'


# Readers: how to write the smallest dataset of each with one image of a given name (without .jpg), and how to build it.
Writer = Callable[[Path, str], dict]
WRITERS: dict[str, Writer] = {}
# Readers without a writer, each with the reason.
WITHOUT_PATHS = {
    'DigitScenes': 'reads files that it made itself, with the code of CocoMultiLabel',
    'FeatureDataset': 'has no images',
}


def writes(name: str) -> Callable[[Writer], Writer]:
    def register(writer: Writer) -> Writer:
        WRITERS[name] = writer
        return writer

    return register


def save(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding='utf-8')


@writes('CocoMultiLabel')
def write_coco(root: Path, name: str) -> dict:
    images = [dict(id=1, file_name=f'{name}.jpg', width=4, height=4)]
    annotations = [dict(id=1, image_id=1, category_id=1, bbox=[0, 0, 2, 2], area=4, iscrowd=0)]
    content = dict(images=images, annotations=annotations, categories=[dict(id=1, name='cat')])
    save(root / 'instances.json', content)
    return dict(type='CocoMultiLabel', ann_file='instances.json', data_prefix='images')


@writes('VOC')
def write_voc(root: Path, name: str) -> dict:
    save(root / 'ImageSets/Main/train.txt', f'{name}\n')
    box = '<bndbox><xmin>1</xmin><ymin>1</ymin><xmax>3</xmax><ymax>3</ymax></bndbox>'
    thing = f'<object><name>cat</name>{box}</object>'
    xml = f'<annotation><size><width>4</width><height>4</height></size>{thing}</annotation>'
    save(root / 'Annotations/a.xml', xml)
    save(root.parent / 'a.xml', xml)  # what a name that leads out would find
    return dict(type='VOC', split='train', data_prefix=dict(img_path='images', ann_path='Annotations'))


@writes('NUSWIDE, csv')
def write_nus_wide_table(root: Path, name: str) -> dict:
    save(root / 'nus_wid_data.csv', f'filepath,label,split_name\n{name}.jpg,"[\'sky\']",train\n')
    return dict(type='NUSWIDE', protocol='csv', data_prefix='images')


@writes('NUSWIDE, official')
def write_nus_wide_lists(root: Path, name: str) -> dict:
    save(root / 'ImageList/TrainImagelist.txt', f'{name}.jpg\n')
    for concept in NUS_WIDE_CONCEPTS:
        save(root / f'Groundtruth/TrainTestLabels/Labels_{concept}_Train.txt', '1\n')
    return dict(type='NUSWIDE', protocol='official', data_prefix='images')


@writes('OpenImages')
def write_open_images(root: Path, name: str) -> dict:
    save(root / 'labels.csv', f'ImageID,Source,LabelName,Confidence\n{name},verification,/m/01,1\n')
    save(root / 'classes.txt', '/m/01\n')
    return dict(type='OpenImages', ann_file='labels.csv', classes_file='classes.txt', data_prefix='images')


@writes('ImageNetMultiLabel')
def write_imagenet(root: Path, name: str) -> dict:
    save(root / 'meta/train.txt', f'{name}.jpg 0\n')
    save(root / 'classes.txt', 'n01440764 tench\n')
    return dict(type='ImageNetMultiLabel', classes_file='classes.txt', data_prefix='images')


@writes('CUBAttributes')
def write_cub(root: Path, name: str) -> dict:
    save(root / 'images.txt', f'1 {name}.jpg\n')
    save(root / 'train_test_split.txt', '1 1\n')
    save(root / 'attributes/attributes.txt', '1 has_bill::long\n')
    save(root / 'attributes/certainties.txt', '1 not visible\n2 guessing\n3 probably\n4 definitely\n')
    save(root / 'attributes/image_attribute_labels.txt', '1 1 1 4 2.5\n')
    return dict(type='CUBAttributes', data_prefix='images')


@writes('WIDERAttribute')
def write_wider(root: Path, name: str) -> dict:
    persons = [dict(bbox=[0, 0, 2, 2], attribute=[1, -1])]
    images = [dict(file_name=f'{name}.jpg', scene_id=0, targets=persons)]
    save(root / 'wider.json', dict(images=images, attribute_id_map={'0': 'male', '1': 'hat'}))
    return dict(type='WIDERAttribute', ann_file='wider.json', data_prefix='images')


@writes('VISPR, images')
def write_vispr(root: Path, name: str) -> dict:
    save(root / 'attributes_v2.tsv', 'idx\tattribute_id\n0\ta0_safe\n')
    save(root / 'annotations/a.json', dict(image_path=f'{name}.jpg', labels=['a0_safe']))
    save(root / 'train.txt', 'annotations/a.json\n')
    return dict(type='VISPR', ann_file='train.txt', data_prefix='images')


@writes('VISPR, annotations')
def write_vispr_list(root: Path, name: str) -> dict:
    cfg = write_vispr(root, 'a')
    for folder in (root, root.parent):
        save(folder / 'a', dict(image_path='a.jpg', labels=['a0_safe']))
    save(root / 'train.txt', f'{name}\n')
    return cfg


@writes('VAW')
def write_vaw(root: Path, name: str) -> dict:
    instance = dict(image_id=name, instance_id='1', instance_bbox=[0, 0, 2, 2], object_name='cat')
    save(root / 'train.json', [dict(**instance, positive_attributes=['red'], negative_attributes=[])])
    save(root / 'attribute_index.json', dict(red=0))
    return dict(type='VAW', ann_file='train.json', image_folders=['images'])


@writes('VQASoftAnswers')
def write_vqa(root: Path, name: str) -> dict:
    answers = [dict(answer='yes', answer_id=number) for number in range(1, 11)]
    save(root / 'annotations.json', dict(annotations=[dict(question_id=1, image_id=1, answers=answers)]))
    question = dict(question_id=1, image_id=1, question='Is it?')
    save(root / 'questions.json', dict(questions=[question], data_subtype=name))
    save(root / 'answers.json', ['yes', 'no'])
    files = dict(ann_file='annotations.json', question_file='questions.json', answer_file='answers.json')
    return dict(type='VQASoftAnswers', **files, data_prefix='images', image_name='{split}.jpg')


@pytest.fixture
def build(tmp_path):
    """Write the dataset of a reader with one image of the given name, and read it."""

    def read(reader: str, name: str) -> MultiLabelReader:
        root = tmp_path / 'data' / 'root'
        for place in (root / 'images' / 'a.jpg', root / 'a.jpg', root.parent / 'a.jpg'):
            place.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(np.zeros((4, 4, 3), dtype=np.uint8)).save(place)
        cfg = WRITERS[reader](root, name)
        return MMENGINE_DATASETS.build(dict(cfg, type=f'mmml_losses.{cfg["type"]}', data_root=str(root)))

    return read


@pytest.mark.parametrize('reader', WRITERS)
def test_an_image_below_the_folder_is_read(build, reader, tmp_path):
    """The smallest datasets are right, so that below it is the name that is rejected."""
    dataset = build(reader, 'a')
    info = dataset.get_data_info(0)
    assert len(dataset) == 1
    assert Path(info['img_path']) == tmp_path / 'data' / 'root' / 'images' / 'a.jpg'
    assert info['gt_label']


@pytest.mark.parametrize(
    'name',
    [
        *('../a', '../../a', 'b/../../a', '/a', '//host/a', '..\\a', '\\a', 'C:\\a', 'C:a'),
        *('http://host/a', 's3://bucket/a'),  # which MMEngine would fetch
    ],
)
@pytest.mark.parametrize('reader', WRITERS)
def test_a_name_that_leads_out_of_the_folder_is_rejected(build, reader, name):
    with pytest.raises(AnnotationError, match='below'):
        build(reader, name)


def test_an_absolute_path_to_an_image_that_is_there_is_rejected(build, tmp_path):
    with pytest.raises(AnnotationError, match='below'):
        build('CocoMultiLabel', str(tmp_path / 'data' / 'root' / 'images' / 'a'))


def test_every_reader_is_tested():
    DATASETS.import_from_location()
    readers = {name for name, kind in DATASETS.module_dict.items() if issubclass(kind, MultiLabelReader)}
    assert readers == {name.split(',')[0] for name in WRITERS} | set(WITHOUT_PATHS)


def test_readers_join_paths_of_images_in_one_place():
    """No reader has its own way to make the path of an image."""
    for name, kind in DATASETS.module_dict.items():
        if issubclass(kind, MultiLabelReader):
            assert kind.image_path is MultiLabelReader.image_path, name
            assert 'img_path=os.path.join' not in inspect.getsource(kind), name


def test_features_with_python_objects_are_rejected(tmp_path):
    """Only pickle could read them."""
    objects = np.array([[dict(a=1)], [dict(b=2)]], dtype=object)
    np.savez(tmp_path / 'features.npz', features=objects, labels=np.ones((2, 1)))
    with pytest.raises(AnnotationError, match='Python objects'):
        MMENGINE_DATASETS.build(dict(type='mmml_losses.FeatureDataset', ann_file=str(tmp_path / 'features.npz')))


def test_a_binary_file_is_no_list(tmp_path):
    (tmp_path / 'list.txt').write_bytes(b'\x80\x04\x95')
    with pytest.raises(AnnotationError, match='is not a text file'):
        list(read_lines(tmp_path / 'list.txt'))
