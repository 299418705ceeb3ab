"""Test the benchmarks of the papers' claims: all losses have a row, runs are kept, and tables show their figures."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks import claims, coco_features, digit_scenes, feature_variants
from benchmarks.digit_training import moved
from benchmarks.experiment_figures import Order, Spread
from benchmarks.linear_training import Head, Recipe, rate_at, train_together
from benchmarks.loss_rows import COCO, RESAMPLED, TrainingFacts, build_loss, loss_rows
from benchmarks.run_store import RunStore
from mmml_losses.losses import MultiLabelLoss
from mmml_losses.registry import LOSSES

FACTS = TrainingFacts(num_samples=40, num_classes=6, expected_positives=1.5, max_epochs=2)
# EPR and ROLE contain the first. The second compares views, which frozen features do not have.
WITHOUT_ROW = {'ExpectedPositiveRegularizer', 'ConsistencyRegularizer'}


def types_of(config: dict) -> set[str]:
    return {config['type']}.union(*(types_of(part) for part in config.get('losses', {}).values()))


def made_features(images: int = 40, classes: int = 6) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    labels = (torch.rand(images, classes, generator=generator) < 0.3).float()
    labels[:, 0] = 1  # at least one label each, and one class that all have
    labels[0, 0] = 0
    return torch.randn(images, 8, generator=generator) + labels[:, :1], labels


def test_every_registered_loss_has_a_row():
    registered = {name for name, kind in LOSSES.module_dict.items() if issubclass(kind, MultiLabelLoss)}
    in_rows = set().union(*(types_of(config) for config in loss_rows(FACTS, COCO).values()))
    assert registered - in_rows == WITHOUT_ROW
    assert set(RESAMPLED) <= loss_rows(FACTS, COCO).keys()


@pytest.mark.parametrize('row', loss_rows(FACTS, COCO))
def test_every_row_trains(row):
    features, labels = made_features()
    head = Head(build_loss(loss_rows(FACTS, COCO)[row], labels), 0.01, (8, 6), Recipe(2, 16), seed=0)
    start = head.layer.weight.detach().clone()
    train_together(features, labels, [head], Recipe(2, 16), seed=0, class_aware=row in RESAMPLED)
    assert head.layer.weight.isfinite().all()
    assert not torch.equal(head.layer.weight, start)


def test_classifiers_side_by_side_become_what_they_become_alone():
    features, labels = made_features()
    rows = loss_rows(FACTS, COCO)

    def heads() -> list[Head]:
        return [
            Head(build_loss(rows[row], labels), 0.01, (8, 6), Recipe(2, 16), seed=3)
            for row in ('Hill', 'LL-Cp', 'ROLE')
        ]

    together, alone = heads(), heads()
    train_together(features, labels, together, Recipe(2, 16), seed=3, class_aware=False)
    for head in alone:
        train_together(features, labels, [head], Recipe(2, 16), seed=3, class_aware=False)
    for one, other in zip(together, alone, strict=True):
        torch.testing.assert_close(one.layer.weight, other.layer.weight)


def test_all_losses_start_at_one_probability():
    _, labels = made_features()
    for row in ('BCE', 'SPA'):
        head = Head(build_loss(loss_rows(FACTS, COCO)[row], labels), 0.01, (8, 6), Recipe(2, 16), seed=0)
        torch.testing.assert_close(head.loss.probabilities(head.layer.bias), torch.full((6,), 0.12))


def test_the_rate_rises_for_an_epoch_and_falls_to_nothing():
    rates = [rate_at(progress / 100, epochs=5) for progress in range(101)]
    assert rates[0] == pytest.approx(0.05)
    assert max(rates) == rates[20] == pytest.approx(1)
    assert rates[100] == pytest.approx(0)


def test_class_aware_order_draws_rare_classes_more_often():
    labels = torch.zeros(100, 2)
    labels[:98, 0] = 1
    labels[98:, 1] = 1
    drawn = torch.cat(list(Order(labels, class_aware=True, seed=0).batches(0, 16)))
    assert len(drawn) == 100
    assert (drawn >= 98).sum() > 30
    assert sorted(torch.cat(list(Order(labels, class_aware=False, seed=0).batches(0, 16))).tolist()) == list(range(100))


def test_rows_have_files_of_their_own():
    store = RunStore(Path('runs'))
    rows = digit_scenes.digit_rows(FACTS)
    assert len({store.path('full', row, 'seed_0') for row in rows}) == len(rows)


def test_a_run_made_with_something_else_is_rejected(tmp_path):
    store = RunStore(tmp_path)
    names = ('full', 'BCE', 'seed_0')
    assert not store.has(names, dict(rate=0.1))
    store.keep(names, dict(rate=0.1), dict(value=3))
    assert store.has(names, dict(rate=0.1))
    assert store.find(*names) == dict(value=3)
    with pytest.raises(SystemExit, match='--out'):
        store.has(names, dict(rate=0.2))


@pytest.fixture
def features_file(tmp_path):
    generator = np.random.default_rng(0)
    arrays = {}
    for split, images in dict(train=60, long_tailed=40, test=50).items():
        labels = (generator.random((images, 6)) < 0.4).astype(np.uint8)
        labels[np.arange(6), np.arange(6)] = 1
        arrays[f'{split}_features'] = (generator.standard_normal((images, 8)) + labels[:, :1]).astype(np.float16)
        arrays[f'{split}_labels'] = labels
        arrays[f'{split}_ids'] = np.arange(images) + dict(train=0, long_tailed=0, test=1000)[split]
    full = arrays.pop('train_labels')
    arrays |= {f'train_{name}': full * (generator.random(full.shape) < 0.6) for name in ('75', '40', 'single')}
    np.savez(tmp_path / 'features.npz', train_full=full, **arrays)
    return tmp_path / 'features.npz'


def test_the_feature_benchmark_resumes_and_prints_all_tables(features_file, capsys, monkeypatch):
    trained = []

    def counting(*args, **kwargs):
        trained.append(len(args[2]))
        train_together(*args, **kwargs)

    monkeypatch.setattr(coco_features, 'train_together', counting)
    monkeypatch.setattr(coco_features, 'RETRIEVAL_QUERIES', 2000)
    options = [str(features_file), '--out', str(features_file.parent / 'runs'), '--seeds', '2', '--losses']
    losses = ['BCE', 'ASL', 'SPA', 'Two-way', 'ROLE', 'BCE + RS', 'DR']
    coco_features.main([*options, *losses[:-1]])
    # Six settings, two of which have RS; two seeds, and at least three rates on held-out images.
    assert sum(trained) >= (6 * 5 + 2) * 5
    trained.clear()
    coco_features.main([*options, *losses])
    assert 6 * 5 <= sum(trained) <= 6 * (len(coco_features.RATES) + 2)
    printed = capsys.readouterr().out
    for title in (*coco_features.SETTINGS.values(), 'Retrieval', 'Claims'):
        assert title in printed
    for row in ('BCE', 'ASL + phi', 'Two-way + temperature', 'DR, RS'):
        assert f'| {row} ' in printed
    trained.clear()
    coco_features.main([*options, *losses, '--report'])
    assert not trained
    last = printed[printed.rindex('Full labels') :]
    assert capsys.readouterr().out.endswith(last)


def test_rates_are_chosen_on_images_that_are_neither_trained_on_nor_tested(features_file):
    features = coco_features.Features(features_file)
    for name in coco_features.SETTINGS:
        setting = features.setting(name)

        def rows(split):
            return {tuple(row) for row in split.features.tolist()}

        assert not rows(setting.held_out) & (rows(setting.tuning) | rows(setting.test))
        assert rows(setting.tuning) <= rows(setting.whole)


def test_variants_are_judged_on_held_out_images(features_file, capsys):
    options = [
        str(features_file),
        '--rates',
        '0.001',
        '0.01',
        '--losses',
        'BCE',
        "{'type': 'LASDLoss', 'threshold': 0.3}",
    ]
    feature_variants.main([*options, '--setting', '40'])
    printed = capsys.readouterr().out
    assert printed.count('% right') == 2
    feature_variants.main([*options, '--setting', 'lt-sgd', '--class-aware', '--epochs', '2'])
    assert capsys.readouterr().out.count('\n| BCE ') == 2
    coco_features.main(
        [str(features_file), '--out', str(features_file.parent / 'runs'), '--seeds', '1', '--losses', 'BCE']
    )
    held_out = json.loads((features_file.parent / 'runs' / '40' / 'bce' / 'rate_0.001.json').read_text())['figures']
    assert f'| {held_out["mAP@class"]:.2f} |' in printed.replace('     ', ' ').replace('  ', ' ')


def test_short_names_train_with_a_reduction_on_raw_features_and_are_tested(features_file, capsys):
    options = [str(features_file), '--test', '--raw', '--optimizer', 'sgd', '--epochs', '2', '--losses', 'asl', 'bce']
    tables = []
    for reduction in ([], ['--reduction', 'labelmean'], ['--reduction', 'sum']):
        feature_variants.main([*options, *reduction])
        tables.append(capsys.readouterr().out)
    own, by_label, summed = tables
    assert 'test images' in own
    assert own.count('| asl') == 1
    assert own == by_label != summed


def test_a_loss_that_is_neither_a_row_nor_a_config_is_rejected(features_file):
    with pytest.raises(SystemExit, match='NoLoss'):
        feature_variants.main([str(features_file), '--losses', 'NoLoss'])


def test_rates_are_compared_until_the_best_has_a_worse_one_on_both_sides():
    assert coco_features.widened((3e-4, 1e-3), 1e-3) == (3e-4, 1e-3, 3e-3)
    assert coco_features.widened((3e-4, 1e-3), 3e-4) == (1e-4, 3e-4, 1e-3)
    assert coco_features.widened((1e-4, 3e-4, 1e-3), 3e-4) == (1e-4, 3e-4, 1e-3)
    assert coco_features.widened((3e-5, 1e-4, 3e-4), 3e-5) == (3e-5, 1e-4, 3e-4)


def test_a_rate_that_diverges_is_worse_than_any_other(features_file):
    setting = coco_features.Features(features_file).setting('lt-sgd')
    experiment = coco_features.Experiment(RunStore(features_file.parent / 'runs'), setting, {})
    run = coco_features.Run('BCE', dict(type='BCELoss'), 1.0, 0, 'rate_1')
    head = experiment._head(run, setting.tuning)
    finite = experiment._compare(run, head)
    head.layer.weight.data.fill_(float('nan'))
    assert experiment._compare(run, head)['mAP@class'] < finite['mAP@class']


def test_a_report_has_mean_and_deviation_of_all_seeds(tmp_path, capsys):
    store = RunStore(tmp_path)
    for seed, value in enumerate((10.0, 12.0, 14.0)):
        figures = {'mAP@class': value, 'mAP@sample': 1.0, 'ACE': 2.0, 'MCE': 3.0}
        store.keep(('full', 'BCE', f'seed_{seed}'), {}, dict(rate=0.1, readings=dict(BCE=figures)))
    coco_features.main(['none.npz', '--out', str(tmp_path), '--report'])
    assert '12.00 ± 2.00' in capsys.readouterr().out


def test_verdicts():
    comparison = claims.Comparison('full', 'SPA', 'ASL', 'ACE', sign=-1)
    low, high, near = Spread([1.0, 2.0, 3.0]), Spread([9.0, 10.0, 11.0]), Spread([1.5, 2.5, 3.5])
    assert claims.verdict(comparison, low, high)[2] == 'yes'
    assert claims.verdict(comparison, high, low)[2] == 'no'
    assert claims.verdict(comparison, low, near)[2] == 'within the deviation'
    equal = comparison._replace(sign=1, slack=1.0)
    assert claims.verdict(equal, low, near)[2] == 'yes'
    assert claims.verdict(equal, low, high)[2] == 'no'


def test_a_claim_without_runs_is_not_called_shown(capsys):
    claims.print_claims(lambda setting, row, measure: None, coco_features.SETTINGS)
    printed = capsys.readouterr().out
    assert printed.count('**not run**') == len(claims.CLAIMS)
    claims.print_claims(
        lambda setting, row, measure: Spread([1.0, 2.0]) if row in ('Hill', 'BCE') else None, coco_features.SETTINGS
    )
    assert '0 of 18 (16 not run)' in capsys.readouterr().out


def test_parts_share_all_runs_of_the_digits():
    runs = digit_scenes.planned_runs(list(digit_scenes.SETTINGS), None, seeds=3)
    shares = [runs[number::count] for number, count in map(digit_scenes.parse_part, ('1/2', '2/2'))]
    assert sorted(shares[0] + shares[1]) == sorted(runs)
    assert len(set(runs)) == len(runs)
    for comparison in (comparison for each in claims.CLAIMS.values() for comparison in each):
        for row in (comparison.row, comparison.other) if comparison.setting in digit_scenes.SETTINGS else ():
            assert digit_scenes.Run(comparison.setting, row, 2) in runs


def test_moved_scenes_are_the_same_scenes_elsewhere():
    images = torch.zeros(200, 16, 16, dtype=torch.uint8)
    images[:, 8, 8] = 255
    torch.manual_seed(0)
    places = moved(images).nonzero()
    assert len(places) == 200
    offsets = places[:, 1:] - 8
    assert offsets.min() == -3
    assert offsets.max() == 3


@pytest.mark.slow
def test_the_digits_benchmark_trains_in_all_settings(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(digit_scenes, 'TRAIN_SCENES', range(100))
    for name, epochs in dict(EPOCHS=2, LONG_TAILED_EPOCHS=1, PRETRAINING_EPOCHS=1).items():
        monkeypatch.setattr(digit_scenes, name, epochs)
    monkeypatch.setattr(digit_scenes, 'PRETRAINING_SCENES', range(100, 200))
    options = ['--data', str(tmp_path / 'scenes'), '--out', str(tmp_path / 'runs'), '--seeds', '1']
    digit_scenes.main([*options, '--losses', 'SPA', 'DR', 'LASD'])
    printed = capsys.readouterr().out
    for title in digit_scenes.SETTINGS.values():
        assert title in printed
    figures = json.loads((tmp_path / 'runs' / 'lt' / 'dr' / 'seed_0.json').read_text())['figures']
    assert {'head', 'medium', 'tail'} <= figures['readings']['DR'].keys()
