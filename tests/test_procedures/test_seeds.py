"""Test trainings with several seeds: what differs between them, resuming, and the figures that come out."""

import csv
from pathlib import Path
from statistics import mean, stdev

import pytest
import torch
from mmengine.config import ConfigDict

from mmml_losses.engine import running
from mmml_losses.hosts.checkpoints import check_checkpoint
from mmml_losses.procedures import stages
from mmml_losses.procedures.seeds import compare, read_seeds, summarize, train_seeds
from mmml_losses.utils.errors import UsageError
from tests.helpers.few_features import feature_config, feature_options, write_features
from tests.helpers.interruption import StopAfter
from tests.helpers.tools import error_of, run_tool

pytestmark = pytest.mark.usefixtures('unformatted_configs')

CONFIG = Path(__file__).resolve().parents[2] / 'configs' / 'bce_features.py'
MAP = 'multi-label/mAP@class'


@pytest.fixture(scope='module')
def features(tmp_path_factory) -> Path:
    return write_features(tmp_path_factory.mktemp('features') / 'features.npz')


def config(features, folder):
    cfg = feature_config(features, folder)
    cfg.launcher = 'none'
    cfg.train_dataloader.dataset = ConfigDict(
        type='mmml_losses.MissingLabels', dataset=cfg.train_dataloader.dataset, missing_ratio=0.5
    )
    return cfg


@pytest.fixture(scope='module')
def unbroken(features, tmp_path_factory, unformatted_configs):
    """Train with two seeds; return the folder and the figures."""
    folder = tmp_path_factory.mktemp('seeds') / 'run'
    return folder, train_seeds(config(features, folder), 2, lambda message: None)


def weights(folder, seed):
    return check_checkpoint(folder / f'seed_{seed}' / 'epoch_3.pth')['state_dict']['head.fc.weight']


def test_seeds_start_from_other_weights_and_have_the_same_labels(unbroken, features, tmp_path, monkeypatch):
    seen = {}
    build_runner = running.build_runner

    def build(cfg, datasets=()):
        runner = build_runner(cfg, datasets)
        dataset = runner.build_dataloader(cfg.train_dataloader, seed=runner.seed).dataset
        runner.model.init_weights()
        seen[cfg.randomness.seed] = dataset.observed_labels(), runner.model.head.fc.weight.detach().clone()
        raise KeyboardInterrupt

    monkeypatch.setattr(running, 'build_runner', build)
    for seed in (0, 1):
        cfg = config(features, tmp_path)
        cfg.randomness.seed = seed
        with pytest.raises(KeyboardInterrupt):
            running.build_runner(cfg)
    assert (seen[0][0] == seen[1][0]).all()
    assert not torch.equal(seen[0][1], seen[1][1])
    assert not torch.equal(weights(unbroken[0], 0), weights(unbroken[0], 1))


def test_no_process_looks_for_the_checkpoint_before_all_have_trained(features, tmp_path, monkeypatch):
    steps = []
    for name in ('train', 'barrier', 'latest_checkpoint'):
        monkeypatch.setattr(stages, name, lambda *args, name=name: steps.append(name))
    run = stages.Stages(config(features, tmp_path), 'the test', lambda message: None)
    run.start('record.json')
    with pytest.raises(UsageError, match='the training left no checkpoint'):
        run.train('stage', run.config('stage', 0))
    assert steps == ['latest_checkpoint', 'train', 'barrier', 'latest_checkpoint']


def test_a_finished_seed_is_not_repeated_and_more_can_follow(unbroken, features):
    folder, figures = unbroken
    said, before = [], (folder / 'seed_0' / 'epoch_3.pth').stat().st_mtime_ns
    more = train_seeds(config(features, folder), 3, said.append)
    assert said == [
        *(f'seed_{seed}{kind}: finished before' for seed in (0, 1) for kind in ('', '_test')),
        'seed_2',
        'seed_2_test',
    ]
    assert {seed: more[seed] for seed in (0, 1)} == figures
    assert read_seeds(folder) == more
    assert (folder / 'seed_0' / 'epoch_3.pth').stat().st_mtime_ns == before
    other = config(features, folder)
    other.train_cfg.max_epochs = 2
    with pytest.raises(UsageError, match='begun with other settings'):
        train_seeds(other, 3, said.append)


def test_an_interrupted_seed_goes_on(unbroken, features, tmp_path, monkeypatch):
    build_runner = running.build_runner

    def build(cfg, datasets=()):
        runner = build_runner(cfg, datasets)
        if Path(cfg.work_dir).name == 'seed_1':
            runner.register_hook(StopAfter(2))
        return runner

    with monkeypatch.context() as context:
        context.setattr(running, 'build_runner', build)
        with pytest.raises(KeyboardInterrupt):
            train_seeds(config(features, tmp_path), 2, lambda message: None)
    said = []
    figures = train_seeds(config(features, tmp_path), 2, said.append)
    assert 'seed_1: goes on from epoch_2.pth' in said
    assert torch.equal(weights(tmp_path, 1), weights(unbroken[0], 1))
    assert figures == {seed: unbroken[1][seed] for seed in (0, 1)}


def test_the_table_has_mean_and_sample_deviation(unbroken):
    folder, figures = unbroken
    values = [metrics[MAP] for metrics in figures.values()]
    assert summarize(figures)[MAP] == (mean(values), stdev(values))
    rows = {row['metric']: row for row in csv.DictReader((folder / 'seeds.csv').open())}
    known = read_seeds(folder)  # another test may have added a seed
    assert [float(rows[MAP][f'seed_{seed}']) for seed in known] == [metrics[MAP] for metrics in known.values()]
    assert float(rows[MAP]['mean']) == mean(metrics[MAP] for metrics in known.values())


def test_a_metric_that_is_missing_for_a_seed_has_no_mean():
    assert summarize({0: dict(a=1.0, b=None), 1: dict(a=3.0, b=2.0)}) == dict(
        a=(2.0, stdev([1.0, 3.0])), b=(None, None)
    )
    assert summarize({0: dict(a=1.0)}) == dict(a=(1.0, None))


def test_a_comparison_pairs_the_seeds():
    first, second = {0: dict(a=1.0, b=None), 1: dict(a=5.0, b=1.0)}, {1: dict(a=6.5, b=1.0), 0: dict(a=2.0, b=1.0)}
    found = compare(first, second)
    assert set(found) == {'a'}
    assert found['a'][:3] == (3.0, 4.25, stdev([1.0, 1.5]))
    assert found['a'].p_value == pytest.approx(0.1257, abs=1e-4)  # t = 5 with one degree of freedom
    with pytest.raises(UsageError, match=r'the same seeds, at least 2, got \[0, 1\] and \[0\]'):
        compare(first, {0: dict(a=1.0)})


def test_the_tools_print_a_table_of_seeds_and_a_comparison(features, tmp_path, capsys):
    options = ['--cfg-options', *(f'{key}={value}' for key, value in feature_options(features).items())]
    for loss in ('bce', 'asl'):
        run_tool('train.py', CONFIG, '--loss', loss, '--seeds', 2, '--work-dir', tmp_path / loss, *options)
    lines = capsys.readouterr().out.splitlines()
    (header, *_) = [line.split() for line in lines if line.startswith('metric')]
    assert header == ['metric', 'mean', 'deviation', 'seed', '0', 'seed', '1']
    assert sum(line.startswith(MAP) for line in lines) == 2
    run_tool('compare_seeds.py', f'BCE={tmp_path / "bce"}', f'ASL={tmp_path / "asl"}')
    header, first, *_ = (line.split() for line in capsys.readouterr().out.splitlines())
    assert header == ['metric', 'BCE', 'ASL', 'difference', 'deviation', 'p']
    assert first[0] == MAP
    assert float(first[3]) == pytest.approx(float(first[2]) - float(first[1]), abs=1e-4)


def test_bad_calls_are_one_sentence(features, tmp_path):
    options = ['--cfg-options', *(f'{key}={value}' for key, value in feature_options(features).items())]
    assert '--seeds must be at least 1, got 0' in error_of(
        'train.py', CONFIG, '--seeds', 0, '--work-dir', tmp_path, *options
    )
    assert error_of('train.py', CONFIG, '--seeds', 2, '--resume', 'epoch_1.pth') == 2
    message = error_of('compare_seeds.py', f'A={tmp_path}', f'B={tmp_path / "b"}')
    assert 'seeds.json cannot be read' in message
    (tmp_path / 'seeds.json').write_text('[]')
    assert 'seeds.json must be a record of --seeds' in error_of('compare_seeds.py', f'A={tmp_path}', f'B={tmp_path}')
