"""Fixtures that run the configs unchanged, on a few images at their paths below ``data``."""

import gc
from pathlib import Path

import pytest
import torch
from mmengine.config import Config
from mmengine.runner import Runner

from tests.helpers.config_data import write_data

FOLDER = Path(__file__).resolve().parents[2] / 'configs'
CONFIGS = sorted(FOLDER.glob('*.py'))
DATALOADERS = ('train_dataloader', 'val_dataloader', 'test_dataloader')


@pytest.fixture(scope='session')
def made_data(tmp_path_factory) -> Path:
    """Write the data of all configs once."""
    root = tmp_path_factory.mktemp('made')
    write_data(root)
    return root


@pytest.fixture
def at_home(made_data, scenes_folder, tmp_path, monkeypatch):
    """Make an empty folder the current one, and return a function that links the data of a config into it."""
    home = tmp_path / 'home'
    (home / 'data').mkdir(parents=True)
    monkeypatch.chdir(home)

    def place(cfg: Config) -> None:
        if innermost(cfg.train_dataloader.dataset).type.endswith('DigitScenes'):
            return few_scenes(cfg, scenes_folder)
        if words := cfg.model.head.get('word_vectors'):
            link(Path(words), made_data / Path(words).name)  # dangling for a file that is not made
        link(Path('data/vqa'), made_data / 'vqa')
        for settings in (innermost(cfg[name].dataset) for name in DATALOADERS):
            path = Path(settings.get('data_root') or settings['ann_file'])
            source = made_data / path.relative_to('data')
            if path.parent.name == 'VOCdevkit' and 'LongTailed' not in cfg.train_dataloader.dataset.type:
                source = made_data / 'voc' / path.relative_to('data')
            elif '.' not in settings.type:  # a reader of MMPretrain
                source = made_data / 'transfer' / path.name
            elif settings.get('protocol') == 'csv':
                source = made_data / 'nus_wide_table'
            link(path, source)
            if path.name == 'CUB_200_2011':
                link(path.parent / 'attributes.txt', made_data / 'attributes.txt')

    def link(path: Path, target: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_symlink():
            path.symlink_to(target)

    return place


def innermost(dataset: dict) -> dict:
    """Return the settings of the reader inside all wrappers."""
    while 'dataset' in dataset:
        dataset = dataset['dataset']
    return dataset


def few_scenes(cfg: Config, folder: Path) -> None:
    """Let a ``_digits`` config train and test on few scenes."""
    for name in DATALOADERS:
        innermost(cfg[name].dataset).update(data_root=str(folder), num_train=64, num_test=48)


def without_downloads(cfg: Config) -> Config:
    """Replace the pretrained weights of the backbone by random weights."""
    cfg.model.backbone.pop('init_cfg', None)
    if cfg.model.backbone.type == 'TIMMBackbone':
        cfg.model.backbone.pretrained = False
    return cfg


@pytest.fixture(scope='session', autouse=True)
def quick_collection():
    """Exclude the imported modules from garbage collection, which every dataset calls when it is read."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
def fast_building(monkeypatch):
    """Build networks without initialising their weights, and do not format the text of configs.

    Tests of shapes need no weights, and formatting a config takes longer than building most networks.
    """
    monkeypatch.setattr(Config, 'pretty_text', '')
    for name in ('kaiming_normal_', 'kaiming_uniform_', 'xavier_uniform_', 'uniform_', 'normal_', 'trunc_normal_'):
        monkeypatch.setattr(torch.nn.init, name, lambda tensor, *args, **kwargs: tensor)


@pytest.fixture
def ready_runner(at_home, fast_building, tmp_path):
    """Return a function that builds a Runner from a config file with all its parts, without running it."""

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
