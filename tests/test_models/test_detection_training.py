"""Detectors of MMDetection train with our losses, each head with each family."""

import math

import pytest
import torch
from torch import nn

from mmml_losses.engine.hooks.detector_check import check_detector
from mmml_losses.losses.core import context
from mmml_losses.registry import LOSSES
from tests.helpers.detectors import (
    CLASSES,
    RECIPES,
    batch,
    build_detector,
    detections,
    detector_config,
    heads_of,
    losses_in,
    set_loss,
    trained_parameters,
)

pytestmark = pytest.mark.needs_mmdet

FREQUENT = dict(class_frequencies=[40, 20, 10], num_samples=100)
FAMILIES = {
    'asl': dict(type='AsymmetricLoss'),
    'hill': dict(type='HillLoss'),
    'spa': dict(type='SPALoss'),
    'splc': dict(type='SPLCLoss', threshold=0.55),
    'lasd': dict(type='LASDLoss', threshold=0.55),
    'll_r': dict(type='LargeLossRejection', relative_increase=0.01),
    'll_ct': dict(type='LargeLossCorrection', relative_increase=0.01),
    'db_focal': dict(type='DBFocalLoss', **FREQUENT),
    'zlpr': dict(type='ZLPRLoss'),
    'dr': dict(type='DRLoss', bucket_size=16),
    'two_way': dict(type='TwoWayLoss', bucket_size=16),
    'spa_lpr': dict(type='SumLoss', losses=dict(spa=dict(type='SPALoss'), lpr=dict(type='LabelPairRegularizer'))),
    'bce_c_lsep': dict(
        type='SumLoss', losses=dict(bce=dict(type='BCELoss'), lsep=dict(type='LSEPLoss', way='class', bucket_size=16))
    ),
}
NOT_POINTWISE = ('zlpr', 'dr', 'two_way', 'spa_lpr', 'bce_c_lsep')


@pytest.fixture(scope='module', params=RECIPES)
def detector(request) -> nn.Module:
    """Return a detector, with the parameters that MMDetection's own loss trains as ``reached``."""
    detector = build_detector(detector_config(request.param, dict(type='mmml_losses.BCELoss', use_sigmoid=True)))
    detector.name = request.param
    set_loss(detector, mmdet_focal())
    detector.reached = trained_parameters(detector, losses_in(detector, *batch()))
    return detector


@pytest.fixture(autouse=True)
def third_epoch(monkeypatch):
    """Set an epoch in the Runner, for losses that depend on it."""
    monkeypatch.setattr(context, 'runner_info', {'epoch': 2}.get)


def mmdet_focal() -> nn.Module:
    from mmdet.models.losses import FocalLoss

    return FocalLoss(use_sigmoid=True, gamma=2.0, alpha=0.25)


@pytest.mark.parametrize('family', FAMILIES)
def test_trains_what_mmdets_loss_trains_and_detects(detector, family):
    set_loss(detector, FAMILIES[family])
    if detector.name == 'paa' and family in NOT_POINTWISE:
        with pytest.raises(ValueError, match='must be a pointwise loss'):
            check_detector(detector)
        return
    losses = losses_in(detector, *batch())
    assert all(math.isfinite(loss) for loss in losses.values())
    reached = trained_parameters(detector, losses)
    if family == 'two_way':  # levels of a pyramid without a positive cost nothing, and a level may be without
        reached |= {name for name in detector.reached if name.startswith('neck.fpn_convs')}
    assert reached >= detector.reached
    found = detections(detector, *batch())
    assert len(found) > 0
    assert set(found.labels.tolist()) <= set(range(CLASSES))
    assert 0 <= found.scores.min() <= found.scores.max() <= 1


def test_our_focal_loss_is_mmdets(detector):
    results = []
    for loss in (mmdet_focal(), LOSSES.build(dict(type='FocalLoss', alpha=0.25))):
        set_loss(detector, loss)
        logits = []
        loss.register_forward_pre_hook(lambda module, arguments, seen=logits: seen.append(arguments[0]))
        losses = losses_in(detector, *batch())
        gradients = torch.autograd.grad(sum(losses.values()), logits, allow_unused=True)
        results.append((losses, [gradient for gradient in gradients if gradient is not None]))
    assert results[0][1]
    torch.testing.assert_close(*results, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize('family', ['spa', 'll_r', 'zlpr', 'dr'])
def test_images_without_objects_train_the_background(detector, family):
    set_loss(detector, FAMILIES[family])
    if detector.name == 'paa' and family in NOT_POINTWISE:
        with pytest.raises(ValueError, match='must be a pointwise loss'):
            check_detector(detector)
        return
    losses = losses_in(detector, *batch(objects=False))
    assert all(math.isfinite(loss) for loss in losses.values())
    classifiers = [name for name in detector.reached if 'cls' in name and 'rpn' not in name]
    assert classifiers
    assert trained_parameters(detector, losses).issuperset(classifiers)


@pytest.mark.parametrize('dtype', [torch.bfloat16, torch.float16])
@pytest.mark.parametrize('name', ['retinanet', 'fcos', 'detr'])
def test_trains_in_half_precision(name, dtype):
    detector = build_detector(detector_config(name, dict(type='mmml_losses.BCELoss', use_sigmoid=True)))
    for family in ('spa', 'two_way', 'spa_lpr'):
        set_loss(detector, FAMILIES[family])
        with torch.autocast('cpu', dtype=dtype):
            loss = losses_in(detector, *batch())['loss_cls']
        assert loss.dtype == torch.float32
        # Of the head alone: in bfloat16, torch's gradients of convolutions over a single pixel, such as the last of the
        # pyramid has, are at times what stood in memory.
        weights = [weight for head in heads_of(detector) for weight in head.parameters()]
        gradients = [
            gradient for gradient in torch.autograd.grad(loss, weights, allow_unused=True) if gradient is not None
        ]
        assert all(gradient.isfinite().all() for gradient in gradients)
        assert any(gradient.any() for gradient in gradients)
