"""Test the losses that ``--loss`` finds by a short name."""

import pytest
import torch
from mmengine.config import Config
from mmpretrain.registry import MODELS

from mmml_losses.cli.losses import find_loss, swap_loss
from mmml_losses.engine.model_loss import check_loss
from mmml_losses.losses import ConsistencyRegularizer, MultiLabelLoss, SumLoss
from mmml_losses.registry import LOSSES as REGISTRY

from .conftest import CONFIGS, FOLDER

LOSSES = FOLDER / '_base_' / 'losses'
# Rows of the papers' tables, by paper.
ROWS = dict(
    spa='bce two_way focal_asymmetric asl spa spa_lpr bce_lpr focal_lpr asl_lpr',
    two_way='softmax weighted_bce focal asl two_way multi_similarity',
    lasd='bce focal wan an_ls asl_without_shift asl_ps epr ll_r ll_ct ll_cp em em_apl las lasd',
    dr='bce rw focal lsep ldam cb_focal circle db db_focal asl zlpr dr dr_db_focal c_lsep c_zlpr bce_c_lsep '
    'c_lsep_db_focal bce_dr',
    hill='bce wan bce_ls focal_detached asl hill splc focal_positive focal_margin_positive mse focal_negative '
    'hill_negative focal_margin bce_splc focal_splc asl_splc',
)
NAMES = sorted(file.stem for file in LOSSES.glob('*.py'))


def test_every_row_of_the_papers_has_a_name_and_every_name_is_a_row():
    assert set(NAMES) == {*' '.join(ROWS.values()).split(), 'asl_gradient'}  # for the configs on digit scenes


@pytest.mark.parametrize('name', NAMES)
def test_every_loss_replaces_that_of_a_config(name):
    cfg = Config.fromfile(FOLDER / 'spa_lpr_digits.py')
    swap_loss(cfg, find_loss(name))
    check_loss(cfg)
    head = MODELS.build(cfg.model.head)
    parts = head.loss_module.losses.values() if isinstance(head.loss_module, SumLoss) else [head.loss_module]
    # A loss that needs other settings as well would not train in another config.
    assert not any(isinstance(part, ConsistencyRegularizer) for part in parts)


@pytest.mark.parametrize('name', NAMES)
def test_every_loss_names_the_source_of_its_values(name):
    assert (LOSSES / f'{name}.py').read_text().startswith('# ')


RECIPES = dict(
    spa_paper='labelmean',
    two_way_paper='batchmean',
    two_way_imagenet='batchmean',
    lasd_paper='labelmean',
    dr_paper='sum',
    dr_code='mean',
    hill_paper='sum',
    hill_role='sum',
    digits='labelmean',
    features='labelmean',
)


def test_every_recipe_names_the_reduction_of_its_losses():
    schedules = {file.stem: Config.fromfile(file) for file in (FOLDER / '_base_' / 'schedules').glob('*.py')}
    assert {name: schedule.loss_reduction for name, schedule in schedules.items()} == RECIPES


@pytest.mark.parametrize(
    'config',
    [each for each in CONFIGS if not each.stem.endswith('_digits')],  # AdamW does not mind the scale of a loss
    ids=lambda config: config.stem,
)
def test_the_loss_of_a_config_has_the_scale_of_its_recipe(config):
    cfg = Config.fromfile(config)
    loss = REGISTRY.build(cfg.model.head.loss)
    own_mean = 'labelmean' if loss.pointwise else 'batchmean'
    assert cfg.loss_reduction in (loss.reduction, own_mean if loss.reduction == 'mean' else None)


SAMPLES, LABELS, FREQUENCY = 256, 300, 0.01
# Class weights are what these losses are for: those of positives, if all classes have this frequency.
CLASS_WEIGHTS = dict(rw=FREQUENCY**-0.5, weighted_bce=1 / FREQUENCY - 1)


def first_step(name: str, reduction: str) -> float:
    """Return the norm of the first gradient of a linear layer whose labels start at their frequency.

    The config is one without a loss. The norm is divided by the class weights of the loss.
    """
    cfg = Config(dict(loss_reduction=reduction, model=dict(head=dict(loss=dict(type='Old')))))
    swap_loss(cfg, find_loss(name))
    loss = REGISTRY.build(cfg.model.head.loss)
    generator = torch.Generator().manual_seed(0)
    labels = (torch.rand(SAMPLES, LABELS, generator=generator) < FREQUENCY).float()
    features = labels @ torch.randn(LABELS, 64, generator=generator) / 2
    features += torch.randn(SAMPLES, 64, generator=generator)
    indices = torch.arange(SAMPLES)
    for module in loss.modules():
        if isinstance(module, MultiLabelLoss) and module.wants_training_labels:
            module.see_training_labels(labels, indices)
        if hasattr(module, 'max_epochs'):
            module.max_epochs = 10
    weight = torch.zeros(LABELS, 64, requires_grad=True)
    logits = features @ weight.T + loss.link.inverse(torch.tensor(FREQUENCY))
    (gradient,) = torch.autograd.grad(loss(logits, labels, epoch=0, sample_idx=indices), weight)
    return gradient.norm().item() / CLASS_WEIGHTS.get(name, 1)


@pytest.mark.parametrize('reduction', ['labelmean', 'batchmean', 'sum'])
def test_all_losses_of_a_recipe_are_of_one_scale(reduction):
    """Hold the first steps of all short names within a factor of 30 of each other, for the reduction of each recipe.

    A label is likely at the start only as often as it is there, so that a sample with n positives has some 2n labels to
    learn: its positives, and false alarms of the same weight. A loss of labels has a gradient for each, and one that
    compares the labels of a sample has a gradient of 2 for all. With the 3 positives here that is a factor of 3. The
    slope of a loss (5 for DR) and its second part (LPR, where there is one) make up the rest. A loss that divides by
    too much or too little is wrong by the labels or the samples, here 256 and more.
    """
    steps = {name: first_step(name, reduction) for name in NAMES}
    assert max(steps.values()) < 30 * min(steps.values()), sorted(steps.items(), key=lambda item: item[1])
    if reduction != 'sum':  # the means of their own, which losses have without a recipe, differ by the labels
        steps = {name: first_step(name, 'mean') for name in ('asl', 'focal', 'bce', 'two_way', 'softmax')}
        assert max(steps.values()) > 30 * min(steps.values())
