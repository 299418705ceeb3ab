"""Test that optimisers, schedules, batches, image sizes and losses are those of the papers."""

import pytest
import torch
from mmengine.config import Config
from mmengine.registry import DATASETS, DefaultScope
from mmengine.runner import Runner

from mmml_losses.datasets import read_labels
from mmml_losses.engine.config_data import hold_out
from mmml_losses.models.word_vectors import load_word_vectors
from mmml_losses.registry import LOSSES, METRICS

from .conftest import CONFIGS, FOLDER

HILL = [config.stem for config in CONFIGS if config.stem.startswith(('hill_', 'splc_'))]
HILL = [name for name in HILL if not name.endswith('_digits')] + ['bce_coco', 'bce_voc12', 'bce_nus']
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


def read(name: str) -> Config:
    return Config.fromfile(FOLDER / f'{name}.py')


def sizes(cfg: Config) -> set:
    steps = [step for pipeline in (cfg.train_pipeline, cfg.test_pipeline) for step in pipeline]
    return {step.scale for step in steps if 'Resize' in step.type}


@pytest.mark.parametrize('name', SPA)
def test_spa(name):
    cfg = read(name)
    optimizer = cfg.optim_wrapper.optimizer
    assert (optimizer.type, optimizer.momentum, optimizer.weight_decay) == ('SGD', 0.9, 1e-4)
    assert cfg.train_dataloader.batch_size == 256
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
    cfg = read(name)
    optimizer = cfg.optim_wrapper.optimizer
    assert (optimizer.type, optimizer.momentum, optimizer.weight_decay) == ('SGD', 0.9, 1e-4)
    assert cfg.train_dataloader.batch_size == 512
    assert cfg.train_cfg.max_epochs == 40
    loss = LOSSES.build(cfg.model.head.loss)
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
    optimizer = cfg.optim_wrapper.optimizer
    assert (optimizer.type, optimizer.weight_decay) == ('Adam', 1e-4)
    assert sizes(cfg) == {(448, 448)}
    assert 'EMAHook' in [hook.type for hook in cfg.custom_hooks]
    assert cfg.model.head.loss.reduction == 'sum'


def test_hill_goes_through_one_cycle_up_to_1e_4(ready_runner):
    course = rates_over_time(ready_runner('hill_coco_40'))
    assert max(course) == pytest.approx(1e-4)
    assert course.index(max(course)) == 7  # a fifth of the way
    assert course[0] == pytest.approx(4e-6)
    assert course[-1] < 1e-8


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
    assert cfg.train_cfg.max_epochs == 10
    assert cfg.train_dataloader.batch_size in (8, 16)
    assert cfg.optim_wrapper.optimizer.lr in (1e-2, 1e-3, 1e-4, 1e-5)
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


@pytest.mark.parametrize('name', ['role_voc12_single', 'role_coco_40', 'role_digits'])
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
    optimizer = cfg.optim_wrapper.optimizer
    assert (optimizer.type, optimizer.momentum, optimizer.weight_decay) == ('SGD', 0.9, 1e-4)
    assert optimizer.lr == dict(voc_lt=3e-4, coco_lt=1e-4)[tail]
    assert cfg.train_dataloader.batch_size == 32
    assert sizes(cfg) == {224, (224, 224)}
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


ROLE_OF_HILL = ['role_coco_40', 'role_coco_75']


@pytest.mark.parametrize('name', [*(name for name in HILL if not name.startswith('bce_')), *ROLE_OF_HILL])
def test_hill_reports_both_variants_of_cf1_at_the_papers_threshold(name):
    cfg = read(name)
    for settings in (cfg.val_evaluator, cfg.test_evaluator):
        (metric,) = [METRICS.build(each) for each in settings.metrics if each.type == 'mmml_losses.MultiLabelF1']
        assert {'CF1', 'macro-F1', 'OF1'} <= set(metric.items)
        assert metric.threshold == ('midpoint' if name in ROLE_OF_HILL else None)
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
