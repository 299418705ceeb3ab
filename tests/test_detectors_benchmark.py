"""Test that the comparison of losses in detectors trains, keeps finished runs, and prints them."""

import json

import pytest
from mmengine.config import Config

from benchmarks import detectors

pytestmark = pytest.mark.needs_mmdet

read_config = Config.fromfile


def read_small_config(file, **kwargs) -> Config:
    """Read a config with few scenes and two epochs of one iteration, and count every box as detected."""
    cfg = read_config(file, **kwargs)
    for loader in ('train_dataloader', 'val_dataloader', 'test_dataloader'):
        dataset = cfg[loader].dataset
        dataset = dataset.get('dataset', dataset)
        dataset.update(num_train=16, num_test=4)
    cfg.train_cfg.max_epochs = 2
    cfg.model.test_cfg.score_thr = -1.0
    return cfg


@pytest.fixture
def benchmark(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(Config, 'fromfile', staticmethod(read_small_config))
    options = ['--data', str(tmp_path / 'scenes'), '--out', str(tmp_path / 'runs'), '--seeds', '1']

    def run(*more: str) -> str:
        detectors.main([*options, *more])
        return capsys.readouterr().out

    return run


def test_every_row_is_a_config():
    for rows in detectors.CONFIGS.values():
        for file in rows.values():
            assert (detectors.ROOT / 'configs' / 'det' / file).is_file()
    assert detectors.CONFIGS.keys() == detectors.SETTINGS.keys()


def test_runs_are_kept_and_printed(benchmark, tmp_path, monkeypatch):
    printed = benchmark('--losses', 'Focal', 'Focal, phi')
    files = [tmp_path / 'runs' / 'full' / row / 'seed_0.json' for row in ('focal', 'focal_phi')]
    figures = [json.loads(file.read_text())['figures'] for file in files]
    assert all(name in each for each in figures for name, _ in detectors.FIGURES['full'].values())
    # The same training and ranking, but other probabilities.
    assert figures[0]['coco/bbox_mAP'] == figures[1]['coco/bbox_mAP']
    for name in ('detection/D-ECE', 'anchors/ACE'):
        assert figures[0][name] != figures[1][name]
    assert all(title in printed for title in detectors.SETTINGS.values())
    assert '| Focal, phi ' in printed
    monkeypatch.setattr(detectors, 'train_and_test', None)  # no run is left
    assert '| Focal, phi ' in benchmark('--losses', 'Focal', 'Focal, phi')
    assert '| ASL ' not in benchmark('--report')


def test_runs_with_other_scenes_are_rejected(benchmark, monkeypatch):
    benchmark('--settings', 'full', '--losses', 'Focal')

    def with_more_noise(file, **kwargs) -> Config:
        cfg = read_small_config(file, **kwargs)
        cfg.train_dataloader.dataset.noise = 20
        return cfg

    monkeypatch.setattr(Config, 'fromfile', staticmethod(with_more_noise))
    with pytest.raises(SystemExit, match='remove it, or choose another folder'):
        benchmark('--settings', 'full', '--losses', 'Focal')
