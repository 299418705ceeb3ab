"""Test the losses that ``--loss`` finds by a short name."""

import pytest
from mmengine.config import Config
from mmpretrain.registry import MODELS

from mmml_losses.cli.losses import find_loss, swap_loss
from mmml_losses.engine.model_loss import check_loss
from mmml_losses.losses import ConsistencyRegularizer, SumLoss

from .conftest import FOLDER

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


@pytest.mark.parametrize('config', ['hill_coco_40', 'dr_voc_lt', 'dr_db_focal_voc_lt'])
@pytest.mark.parametrize('name', ['bce', 'c_lsep', 'dr_db_focal'])
def test_a_loss_in_a_recipe_of_sums_is_a_sum(config, name):
    cfg = Config.fromfile(FOLDER / f'{config}.py')
    swap_loss(cfg, find_loss(name))
    loss = cfg.model.head.loss
    assert {part.reduction for part in loss.get('losses', {'': loss}).values()} == {'sum'}
