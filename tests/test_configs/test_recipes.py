"""Test that optimisers, schedules, batches, image sizes and losses are those of the papers."""

import fnmatch
import json
import re
from pathlib import Path

import pytest
import torch
from mmengine.config import Config
from mmengine.registry import DATASETS, DefaultScope
from mmengine.runner import Runner
from mmpretrain.registry import MODELS

from mmml_losses.datasets import read_labels
from mmml_losses.engine.config_data import hold_out
from mmml_losses.models.word_vectors import load_word_vectors
from mmml_losses.registry import LOSSES, METRICS

from .conftest import CONFIGS, FOLDER, innermost

HILL = [config.stem for config in CONFIGS if config.stem.startswith(('hill_', 'splc_'))]
HILL = [name for name in HILL if not name.endswith('_digits')] + ['bce_coco', 'bce_voc12', 'bce_nus']
ROLE_IN_HILL = ['role_coco_75', 'role_coco_40', *(f'role_hill_{data}_single' for data in ('coco', 'voc12', 'nus'))]
SPA = [config.stem for config in CONFIGS if config.stem.startswith('spa_lpr_') and config.stem != 'spa_lpr_digits']
TWO_WAY = [f'two_way_{dataset}' for dataset in ('coco', 'vispr', 'vaw', 'wider', 'voc07', 'voc12')]
TWO_WAY += [f'two_way_coco_{network}' for network in ('resnext50', 'densenet169', 'regnety_32gf')]
LASD = ['voc12', 'coco', 'nus', 'cub']
TAILS = ['dr', 'dr_db_focal', 'db_focal', 'bce', 'ml_gcn', 'bal_poe']


def groups(runner: Runner) -> dict[str, dict]:
    """Return the parameter group of every weight in the optimiser, by the name of the weight."""
    names = {id(weight): name for name, weight in runner.model.named_parameters()}
    found = {}
    for group in runner.optim_wrapper.param_groups:
        # MMEngine adds a group with a weight that is not in the model, to log the learning rate.
        found |= {names[id(weight)]: group for weight in group['params'] if id(weight) in names}
    return found


def rates_over_time(runner: Runner, weight: str = 'head.fc.weight') -> list[float]:
    """Return the learning rate of a weight in every iteration."""
    group = groups(runner)[weight]
    found = []
    for _ in range(runner.max_epochs):
        for _ in range(len(runner.train_dataloader)):
            found.append(group['lr'])
            for scheduler in runner.param_schedulers:
                if not scheduler.by_epoch:
                    scheduler.step()
        for scheduler in runner.param_schedulers:
            if scheduler.by_epoch:
                scheduler.step()
    return found


def printed_values() -> dict[str, list]:
    """Return, by config, the values that a paper or its authors' code prints: key, value and source of each."""
    found = {}
    for recipe in json.loads((Path(__file__).resolve().parents[1] / 'data' / 'recipes.json').read_text()):
        for pattern in recipe['configs']:
            names = fnmatch.filter((config.stem for config in CONFIGS), pattern)
            assert names, pattern
            for name in names:
                found.setdefault(name, []).extend(recipe['values'])
    return found


PRINTED = {name: values for name, values in printed_values().items() if not name.startswith('ml_gcn')}


@pytest.mark.parametrize('name', PRINTED)
def test_printed_values_are_those_of_their_source(name):
    cfg = read(name)
    for key, value, source in PRINTED[name]:
        assert source
        found = cfg
        for part in re.split(r'(?<!\\)\.', key):
            part = part.replace('\\.', '.')
            found = found[int(part)] if part.isdigit() else found[part]
        assert (list(found) if isinstance(found, tuple) else found) == value, (key, source)


def read(name: str) -> Config:
    return Config.fromfile(FOLDER / f'{name}.py')


def sizes(cfg: Config) -> set:
    steps = [step for pipeline in (cfg.train_pipeline, cfg.test_pipeline) for step in pipeline]
    return {step.scale for step in steps if 'Resize' in step.type}


@pytest.mark.parametrize('name', SPA)
def test_spa(name):
    cfg = read(name)
    assert sizes(cfg) == {(224, 224)}
    loss = LOSSES.build(cfg.model.head.loss)
    assert list(loss.losses) == ['spa', 'lpr']
    assert list(loss.link.constants.values()) == [1, 1, 0, 5, 3, 1]


@pytest.mark.parametrize(
    ('name', 'has_unknown'), [(name, False) for name in SPA if 'wider' in name] + [('two_way_wider', True)]
)
def test_unspecified_attributes_of_persons_are_negative_in_one_paper_and_unknown_in_the_other(
    name, has_unknown, at_home
):
    cfg = read(name)
    at_home(cfg)
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        for loader in (cfg.train_dataloader, cfg.val_dataloader, cfg.test_dataloader):
            labels = read_labels(DATASETS.build(loader.dataset)).labels
            assert bool((labels == -1).any()) is has_unknown


@pytest.mark.parametrize('name', TWO_WAY)
def test_two_way(name):
    loss = LOSSES.build(read(name).model.head.loss)
    assert (type(loss).__name__, loss.way, loss.bucket_size) == ('TwoWayLoss', 'both', 128)


def test_two_way_learns_ten_times_as_fast_in_the_classifier_along_a_cosine(ready_runner):
    runner = ready_runner('two_way_coco')
    found = {name: group['lr'] for name, group in groups(runner).items()}
    assert {name for name, rate in found.items() if rate == 0.01} == {'head.fc.weight', 'head.fc.bias'}
    assert set(found.values()) == {0.01, 0.001}
    course = rates_over_time(runner)
    assert len(course) == 40
    assert course[20] == pytest.approx(0.005)
    assert course[39] < 0.0001


def test_two_way_on_imagenet_starts_from_scratch_and_transfers_a_frozen_backbone(ready_runner):
    cfg = read('two_way_imagenet')
    assert cfg.model.backbone.init_cfg is None
    assert (cfg.train_cfg.max_epochs, cfg.train_dataloader.batch_size) == (90, 512)
    runner = ready_runner('two_way_imagenet')
    assert {group['lr'] for group in groups(runner).values()} == {0.1}


def test_the_transfer_trains_nothing_but_the_classifier(ready_runner):
    assert read('two_way_imagenet_transfer').model.backbone.init_cfg.prefix == 'backbone'
    runner = ready_runner('two_way_imagenet_transfer')
    runner.model.train()
    assert {name for name, weight in runner.model.named_parameters() if weight.requires_grad} == {
        'head.fc.weight',
        'head.fc.bias',
    }
    norms = [module for module in runner.model.modules() if isinstance(module, torch.nn.BatchNorm2d)]
    assert norms
    assert not any(norm.training for norm in norms)


@pytest.mark.parametrize('name', HILL)
def test_hill_and_splc(name):
    cfg = read(name)
    assert sizes(cfg) == {(448, 448)}
    assert 'EMAHook' in [hook.type for hook in cfg.custom_hooks]
    assert cfg.model.head.loss.reduction == 'sum'


def test_hill_goes_through_the_first_31_epochs_of_a_cycle_of_80(ready_runner):
    """Compare with PyTorch's OneCycleLR, as the authors' code calls it, in two iterations an epoch."""
    runner = ready_runner('hill_coco_40', {'train_dataloader.batch_size': 2})
    assert (runner.max_epochs, len(runner.train_dataloader)) == (31, 2)
    weights = [torch.nn.Parameter(torch.zeros(1))]
    optimizer = torch.optim.Adam(weights, lr=1e-4)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-4, steps_per_epoch=2, epochs=80, pct_start=0.2)
    group = groups(runner)['head.fc.weight']
    for _ in range(62):
        expected = optimizer.param_groups[0]
        assert group['lr'] == pytest.approx(expected['lr'], rel=1e-6)
        assert group['betas'][0] == pytest.approx(expected['betas'][0], abs=0.005)
        assert group['betas'][1] == 0.999
        optimizer.step()
        scheduler.step()
        for each in runner.param_schedulers:
            each.step()
    assert group['lr'] > 5e-5  # stopped half-way


def test_hill_decays_neither_biases_nor_norms_and_has_its_images(ready_runner):
    runner = ready_runner('hill_coco_40')
    decay = {name: group['weight_decay'] for name, group in groups(runner).items()}
    weights = dict(runner.model.named_parameters())
    assert all(decay[name] == (1e-4 if weights[name].dim() > 1 else 0) for name in weights)
    cfg = runner.cfg
    types = [step.type for step in innermost(cfg.train_dataloader.dataset).pipeline]
    assert types == ['LoadImageFromFile', 'Resize', 'Cutout', 'RandAugment', 'PackInputs']
    assert (cfg.train_dataloader.batch_size, cfg.data_preprocessor.std) == (128, [255, 255, 255])
    (average,) = [hook for hook in runner.hooks if type(hook).__name__ == 'EMAHook']
    assert (average.ema_cfg['type'], average.ema_cfg['momentum']) == ('ExponentialMovingAverage', 3e-4)


@pytest.mark.parametrize('name', [*HILL, *ROLE_IN_HILL])
def test_hill_reports_f1_scores_and_has_one_augmentation(name):
    cfg = read(name)
    assert 'mmml_losses.MultiLabelF1' in [metric.type for metric in cfg.val_evaluator.metrics]
    assert cfg.test_evaluator == cfg.val_evaluator
    assert innermost(cfg.train_dataloader.dataset).pipeline == read('hill_coco_40').train_pipeline
    assert cfg.train_dataloader.batch_size == 128


@pytest.mark.parametrize(
    ('name', 'samples', 'positives'),
    [
        ('role_hill_coco_single', 82081, 241035 / 82081),
        ('role_hill_voc12_single', 5717, 8331 / 5717),
        ('role_hill_nus_single', 119103, 289460 / 119103),
    ],
)
def test_role_in_the_recipe_of_hill_has_the_numbers_of_its_datasets(name, samples, positives):
    """Compare with the labels of Table II."""
    loss = read(name).model.head.loss
    assert (loss.num_samples, loss.reduction) == (samples, 'sum')
    assert loss.expected_positives == pytest.approx(positives, abs=0.005)


def test_hill_hides_as_many_labels_as_the_paper():
    ratios = {
        name: read(f'hill_{name}').train_dataloader.dataset.get('missing_ratio') for name in ('coco_75', 'coco_40')
    }
    assert ratios == dict(coco_75=0.5, coco_40=0.8)
    singles = [name for name in HILL if name.endswith('_single')]
    assert len(singles) == 8
    assert {read(name).train_dataloader.dataset.type for name in singles} == {'mmml_losses.SinglePositive'}


@pytest.mark.parametrize('dataset', LASD)
@pytest.mark.parametrize('method', ['lasd', 'bce', 'role'])
def test_lasd_and_what_it_compares(method, dataset):
    cfg = read(f'{method}_{dataset}_single')
    assert cfg.train_dataloader.dataset.type == 'mmml_losses.SinglePositive'


@pytest.mark.parametrize(
    ('dataset', 'leverage', 'threshold', 'alpha', 'positives', 'classes', 'samples'),
    [
        ('voc12', 0.10, 0.90, 0.70, 1.46, 20, 5717),
        ('coco', 0.03, 0.90, 0.10, 2.94, 80, 82081),
        ('nus', 0.015, 0.95, 0.15, 1.89, 81, 150000),
        ('cub', 0.005, 0.93, 0.03, 31.4, 312, 5994),
    ],
)
def test_lasd_has_the_values_of_its_tables_1_and_4(dataset, leverage, threshold, alpha, positives, classes, samples):
    parts = LOSSES.build(read(f'lasd_{dataset}_single').model.head.loss).losses
    lasd = parts['lasd']
    assert (lasd.settings['positive_leverage'], lasd.settings['threshold']) == (leverage, threshold)
    assert lasd.expected_positives == positives
    assert (lasd.loss_weight, lasd.settings['gamma_positive'], lasd.settings['gamma_negative']) == (classes, 0, 4)
    assert parts['consistency'].loss_weight == alpha
    role = read(f'role_{dataset}_single').model.head.loss
    assert (role.num_samples, role.num_classes, role.expected_positives) == (samples, classes, positives)


@pytest.mark.parametrize('name', ['role_voc12_single', 'role_hill_voc12_single', 'role_digits'])
def test_role_learns_ten_times_as_fast_in_the_label_estimates_which_do_not_decay(name, ready_runner):
    runner = ready_runner(name)
    network, estimates = (groups(runner)[f'head.{name}'] for name in ('fc.weight', 'loss_module.label_estimator'))
    assert (network['weight_decay'], estimates['weight_decay']) == (runner.cfg.optim_wrapper.optimizer.weight_decay, 0)
    for _ in range(20):
        assert estimates['lr'] == pytest.approx(10 * network['lr'])
        for scheduler in runner.param_schedulers:
            scheduler.step()


@pytest.mark.parametrize('tail', ['voc_lt', 'coco_lt'])
@pytest.mark.parametrize('method', TAILS)
def test_dr_and_what_it_compares(method, tail):
    cfg = read(f'{method}_{tail}')
    assert sizes(cfg) == {(224, 224)}
    assert (cfg.model.backbone.get('frozen_stages'), cfg.model.head.get('in_channels')) == (
        (1, 256) if method != 'ml_gcn' else (None, 2048)
    )
    resampled = cfg.train_dataloader.sampler.type == 'mmml_losses.ClassAwareSampler'
    assert resampled is (method not in ('bce', 'ml_gcn'))
    loss = cfg.model.head.loss
    parts = loss.losses.values() if 'losses' in loss else [loss]
    assert all(part.reduction == 'sum' for part in parts)


@pytest.mark.parametrize(('tail', 'rate'), [('voc_lt', 3e-4), ('coco_lt', 1e-4)])
@pytest.mark.parametrize('method', ['dr', 'bce'])
def test_dr_warms_up_over_500_iterations_from_a_third(method, tail, rate, ready_runner):
    runner = ready_runner(f'{method}_{tail}')
    course = rates_over_time(runner)
    assert course[0] == pytest.approx(rate / 3)
    assert course[498] < course[499] == course[500] == pytest.approx(rate)
    assert course[-1] == pytest.approx(rate / 100)


def test_dr_has_the_augmentation_of_its_reference():
    cfg = read('dr_coco_lt')
    assert cfg.train_dataloader.dataset.dataset.pipeline == cfg.train_pipeline
    assert [step.type for step in cfg.train_pipeline] == [
        'LoadImageFromFile',
        'mmml_losses.PhotometricDistortion',
        'mmml_losses.RandomSideCrop',
        'Resize',
        'RandomFlip',
        'PackInputs',
    ]


def test_the_neck_of_dr_has_no_activation():
    neck = MODELS.build(read('dr_voc_lt').model.neck).eval()
    features = torch.randn(2, 2048, 3, 3)
    expected = neck.norm(neck.fc(features.mean(dim=(2, 3))))
    assert torch.allclose(neck((features,))[0], expected, atol=1e-5)
    assert (neck.train().act.p, neck.fc.out_features) == (0.5, 256)


@pytest.mark.parametrize(('tail', 'rate', 'epochs'), [('voc_lt', 3e-4, 30), ('coco_lt', 1e-4, 35)])
def test_dr_in_its_code_takes_means_and_more_epochs(tail, rate, epochs, ready_runner):
    paper, code = read(f'dr_{tail}'), read(f'dr_code_{tail}')
    assert code.model.head.loss == dict(paper.model.head.loss, reduction='mean')
    assert code.optim_wrapper == paper.optim_wrapper
    assert code.train_dataloader == paper.train_dataloader
    assert code.model.backbone == paper.model.backbone
    course = rates_over_time(ready_runner(f'dr_code_{tail}'))
    assert len(course) % epochs == 0
    each = len(course) // epochs
    assert course[5 * each - 1] == pytest.approx(rate)
    assert course[5 * each] == course[-1] == pytest.approx(rate / 10)


def test_dr_has_its_gammas_for_each_dataset():
    for tail, gamma, mu, scale in (('voc_lt', 7, 0.3, 5), ('coco_lt', 10, 0.2, 2)):
        dr = read(f'dr_{tail}').model.head.loss
        both = read(f'dr_db_focal_{tail}').model.head.loss.losses
        assert (dr.pair_scale, dr.constraint_scale) == (5, gamma)
        assert (both.dr.pair_scale, both.dr.constraint_scale) == (5, gamma)
        for db_focal in (both.db_focal, read(f'db_focal_{tail}').model.head.loss):
            assert (db_focal.mu, db_focal.negative_scale) == (mu, scale)
            assert 'class_frequencies' not in db_focal  # counted in the training set
    gcn, experts = (read(f'{method}_voc_lt').model.head for method in ('ml_gcn', 'bal_poe'))
    assert (gcn.threshold, gcn.neighbour_weight) == (0.4, 0.2)
    assert len(experts.log_prior_scales) == 3


@pytest.mark.parametrize('name', [*HILL, *ROLE_IN_HILL])
def test_hill_reports_both_variants_of_cf1_at_the_papers_threshold(name):
    cfg = read(name)
    for settings in (cfg.val_evaluator, cfg.test_evaluator):
        (metric,) = [METRICS.build(each) for each in settings.metrics if each.type == 'mmml_losses.MultiLabelF1']
        assert {'CF1', 'macro-F1', 'OF1'} <= set(metric.items)
        assert metric.threshold == ('midpoint' if name in ROLE_IN_HILL else None)
        assert sum(each.type == 'mmml_losses.MultiLabelAP' for each in settings.metrics) == 1


@pytest.mark.parametrize('name', ['lasd_digits', 'hill_digits', 'dr_voc_lt', 'dr_coco_lt', 'bce_features'])
def test_a_part_of_the_training_set_is_held_out_with_all_its_labels(name, at_home):
    cfg = read(name)
    at_home(cfg)
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        whole = read_labels(DATASETS.build(cfg.train_dataloader.dataset))
        hold_out(cfg, 0.2)
        train, held_out = (read_labels(DATASETS.build(cfg[f'{part}_dataloader'].dataset)) for part in ('train', 'val'))
    assert sorted([*train.keys, *held_out.keys]) == sorted(whole.keys)
    true = dict(zip(whole.keys, whole.true_labels.tolist(), strict=True))
    assert held_out.labels.tolist() == [true[key] for key in held_out.keys]


@pytest.mark.parametrize('name', ['ml_gcn_voc_lt', 'ml_gcn_coco_lt'])
def test_ml_gcn_takes_the_vectors_of_glove_by_the_names_of_the_training_set(name, ready_runner):
    runner = ready_runner(name)
    file, classifier = runner.cfg.model.head.word_vectors, runner.model.head.fc
    assert not classifier.word_vectors.any()
    runner.call_hook('before_run')
    names = runner.train_dataloader.dataset.CLASSES
    assert torch.equal(classifier.word_vectors, load_word_vectors(file, len(names), names))
    assert classifier.word_vectors.any(dim=1).all()
    plain = ready_runner(name, {'model.head.word_vectors': None})
    assert torch.equal(plain.model.head.fc.word_vectors, torch.eye(len(names)))


def test_a_missing_glove_file_is_named(ready_runner):
    with pytest.raises(ValueError, match=r"word_vectors must be a file, got 'data/none\.txt', .*nlp\.stanford\.edu"):
        ready_runner('ml_gcn_voc_lt', {'model.head.word_vectors': 'data/none.txt'})
