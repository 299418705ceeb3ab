"""Configs as they are, on data that is made here: every path below ``data`` leads to a few images."""

import gc
from pathlib import Path

import pytest
import torch
from mmengine.config import Config
from mmengine.runner import Runner

from tests.helpers import config_data as data

from ..test_datasets.test_cub_attributes import cub_root  # noqa: F401
from ..test_datasets.test_nus_wide import nus_root, table_root  # noqa: F401
from ..test_datasets.test_vaw import vaw_root  # noqa: F401
from ..test_datasets.test_vispr import vispr_root  # noqa: F401
from ..test_datasets.test_voc import voc_root  # noqa: F401
from ..test_datasets.test_wider_attribute import wider_root  # noqa: F401

FOLDER = Path(__file__).resolve().parents[2] / 'configs'
CONFIGS = sorted(FOLDER.glob('*.py'))
DATALOADERS = ('train_dataloader', 'val_dataloader', 'test_dataloader')


@pytest.fixture(scope='session')
def made_data(tmp_path_factory) -> Path:
    """The folders that take a while, made once."""
    root = tmp_path_factory.mktemp('made')
    data.write_coco_folder(root / 'coco')
    data.write_voc_lt(root / 'VOCdevkit')
    data.write_open_images(root / 'open_images')
    data.write_folders(root / 'imagenet')
    data.write_features(root / 'features.npz', width=1280, num_classes=80)
    data.write_features(root / 'vqa_features.npz', width=768 + 2048, num_classes=3129, soft=True)
    return root


@pytest.fixture
def at_home(request, made_data, scenes_folder, tmp_path, monkeypatch):
    """Puts the data of a config where it looks for it, in a folder that is the current one from then on."""
    home = tmp_path / 'home'
    (home / 'data').mkdir(parents=True)
    monkeypatch.chdir(home)

    def place(cfg: Config) -> None:
        if innermost(cfg.train_dataloader.dataset).type.endswith('DigitScenes'):
            return few_scenes(cfg, scenes_folder)
        for settings in (innermost(cfg[name].dataset) for name in DATALOADERS):
            path = Path(settings.get('data_root') or settings['ann_file'])
            if not path.exists() and not path.is_symlink():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.symlink_to(_source(path, settings, cfg))

    def _source(path: Path, settings: dict, cfg: Config) -> Path:
        if 'LongTailed' in cfg.train_dataloader.dataset.type or path.name in ('coco', 'open_images', 'imagenet'):
            return made_data / path.relative_to('data')
        if path.name == 'aircraft':
            return made_data / 'imagenet'
        if path.suffix == '.npz':
            return made_data / path.name
        if path.name == 'nus_wide':
            return request.getfixturevalue('table_root' if settings['protocol'] == 'csv' else 'nus_root')
        root = request.getfixturevalue(data.FIXTURES[str(path)])
        if path.name == 'CUB_200_2011':
            (path.parent / 'attributes.txt').symlink_to(root.parent / 'attributes.txt')
        if path.name == 'VOC2007':
            lists = root / 'ImageSets' / 'Main'
            (lists / 'test.txt').write_text((lists / 'val.txt').read_text())
        return root

    return place


def innermost(dataset: dict) -> dict:
    """The settings of the reader inside all wrappers."""
    while 'dataset' in dataset:
        dataset = dataset['dataset']
    return dataset


def few_scenes(cfg: Config, folder: Path) -> None:
    """Let a ``_digits`` config train and test on few scenes."""
    for name in DATALOADERS:
        innermost(cfg[name].dataset).update(data_root=str(folder), num_train=64, num_test=48)


def without_downloads(cfg: Config) -> Config:
    """The config with a backbone of random weights."""
    cfg.model.backbone.pop('init_cfg', None)
    if cfg.model.backbone.type == 'TIMMBackbone':
        cfg.model.backbone.pretrained = False
    return cfg


@pytest.fixture(scope='session', autouse=True)
def quick_collection():
    """Leaves the modules out when garbage is collected, as every dataset does when it is read."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
def fast_building(monkeypatch):
    """Lets networks be built with whatever weights there are in the memory, which is all that shapes need.

    Nobody reads the configs as text here, which take longer to lay out than most networks to build.
    """
    monkeypatch.setattr(Config, 'pretty_text', '')
    for name in ('kaiming_normal_', 'kaiming_uniform_', 'xavier_uniform_', 'uniform_', 'normal_', 'trunc_normal_'):
        monkeypatch.setattr(torch.nn.init, name, lambda tensor, *args, **kwargs: tensor)


@pytest.fixture
def ready_runner(at_home, fast_building, tmp_path):
    """Turns a config file into a Runner with all that a training needs built, and nothing run."""

    def make(name: str, options: dict | None = None) -> Runner:
        cfg = without_downloads(Config.fromfile(FOLDER / f'{name}.py'))
        cfg.merge_from_dict(options or {})
        at_home(cfg)
        for loader in DATALOADERS:
            cfg[loader].num_workers = 0
            if 'train_images' in innermost(cfg[loader].dataset):
                innermost(cfg[loader].dataset).train_images = 3
        cfg.work_dir = str(tmp_path / 'work_dir')
        runner = Runner.from_cfg(cfg)
        runner.optim_wrapper = runner.build_optim_wrapper(runner.optim_wrapper)
        runner._train_loop = runner.build_train_loop(runner._train_loop)
        runner._val_loop = runner.build_val_loop(runner._val_loop)
        runner._test_loop = runner.build_test_loop(runner._test_loop)
        runner.param_schedulers = runner.build_param_scheduler(runner.param_schedulers)
        return runner

    return make
