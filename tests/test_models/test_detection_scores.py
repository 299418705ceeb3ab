"""Detectors score, refine and match by the probabilities of the loss's link."""

import pytest
import torch
from mmengine.structures import InstanceData
from torch import Tensor, nn

from mmml_losses.losses import Link, MultiLabelLoss
from mmml_losses.registry import LOSSES
from tests.helpers.detectors import (
    CLASSES,
    OURS,
    RECIPES,
    batch,
    build_detector,
    detections,
    detector_config,
    heads_of,
    losses_in,
    set_loss,
)

pytestmark = pytest.mark.needs_mmdet

# Factors of the probability that these heads predict.
FACTORS = {'fcos': 'conv_centerness', 'atss': 'atss_centerness', 'paa': 'atss_centerness'}
# Probabilities by class, where the logit does not matter. The last class has the highest.
TABLE = torch.tensor([0.3, 0.6, 0.9])

CLASSIFIERS = {
    'retinanet': 'retina_cls',
    'reppoints': 'reppoints_cls_out',
    'deformable_detr': 'cls_branches.1',
    'faster_rcnn': 'fc_cls',
}


class TableLink(Link):
    """A link with one probability for each class, whatever the logit, which no sigmoid can equal by chance."""

    def logit_probabilities(self, logits: Tensor) -> Tensor:
        return TABLE.logit().expand_as(logits)


@pytest.fixture(scope='module', params=RECIPES)
def detector(request) -> nn.Module:
    detector = build_detector(detector_config(request.param, dict(type='mmml_losses.BCELoss', use_sigmoid=True)))
    detector.name = request.param
    if request.param in FACTORS:
        factor = getattr(detector.bbox_head, FACTORS[request.param])
        nn.init.zeros_(factor.weight)
        nn.init.constant_(factor.bias, 50.0)  # whose sigmoid is 1
    return detector


def set_linked_loss(detector: nn.Module, link: Link) -> list[MultiLabelLoss]:
    losses = set_loss(detector, dict(type='BCELoss'))
    for loss in losses:
        loss.link = link
    return losses


def test_scores_are_the_probabilities_of_the_link(detector):
    set_linked_loss(detector, TableLink())
    found = detections(detector, *batch())
    assert set(found.labels.tolist()) <= set(range(CLASSES))
    assert CLASSES - 1 in found.labels
    expected = TABLE[found.labels]
    torch.testing.assert_close(found.scores, expected.sqrt() if detector.name == 'paa' else expected)


@pytest.mark.parametrize(
    'loss',
    [dict(type='SPALoss'), dict(type='FocalLoss', alpha=0.25, link='phi'), dict(type='FocalLoss')],
    ids=['spa', 'phi', 'sigmoid'],
)
@pytest.mark.parametrize('name', ['retinanet', 'reppoints', 'deformable_detr', 'faster_rcnn'])
def test_spa_and_phi_score_the_probabilities_of_their_links(name, loss):
    detector = build_detector(detector_config(name, dict(type='mmml_losses.BCELoss', use_sigmoid=True)))
    set_loss(detector, loss)
    seen = []
    classifier = heads_of(detector)[0].get_submodule(CLASSIFIERS[name])
    classifier.register_forward_hook(lambda module, arguments, output: seen.append(by_class(output.detach())))
    found = detections(detector, *batch())
    logits = torch.cat(seen)
    assert distance(LOSSES.build(loss).link(logits), found) < 1e-6
    assert (distance(logits.sigmoid(), found) < 1e-6) == (loss == dict(type='FocalLoss'))


def distance(probabilities: Tensor, found: InstanceData) -> float:
    """Return the largest distance between the score of a detection and the nearest probability of its class."""
    assert len(found) > 5
    return (probabilities[:, found.labels] - found.scores).abs().amin(dim=0).max().item()


def by_class(output: Tensor) -> Tensor:
    if output.dim() == 4:
        output = output.unflatten(1, (-1, CLASSES)).movedim(2, -1)
    return output.reshape(-1, CLASSES)


@pytest.mark.parametrize('training', [True, False])
def test_a_cascade_refines_the_boxes_of_the_most_probable_class(monkeypatch, training):
    detector = build_detector(detector_config('cascade_rcnn', dict(type='mmml_losses.BCELoss')))
    set_linked_loss(detector, TableLink())
    classes = []
    head = heads_of(detector)[0]
    refine = head.regress_by_class
    monkeypatch.setattr(
        head, 'regress_by_class', lambda b, label, *rest: classes.append(label) or refine(b, label, *rest)
    )
    if training:
        losses_in(detector, *batch(objects=False))  # background takes the most probable class
    else:
        detections(detector, *batch())
    assert classes
    assert (torch.cat(classes) == CLASSES - 1).all()


@pytest.mark.parametrize('name', [name for name in OURS if 'detr' in name or name == 'dino'])
def test_queries_are_matched_by_log_odds(name, monkeypatch):
    detector = build_detector(detector_config(name, dict(type='mmml_losses.BCELoss')))
    set_linked_loss(detector, TableLink())
    seen = []
    assign = detector.bbox_head.assigner.assign

    def watch(pred_instances, **kwargs):
        seen.append(pred_instances.scores)
        return assign(pred_instances=pred_instances, **kwargs)

    monkeypatch.setattr(detector.bbox_head.assigner, 'assign', watch)
    losses_in(detector, *batch())
    assert seen
    for scores in seen:
        torch.testing.assert_close(scores.sigmoid(), TABLE.expand_as(scores))


@pytest.mark.parametrize('name', OURS)
def test_our_heads_with_mmdets_loss_are_mmdets_heads(name):
    from mmdet.registry import MODELS

    loss = dict(type='FocalLoss', use_sigmoid=True)
    ours = detector_config(name, loss)
    theirs = detector_config(name, loss)
    theirs.bbox_head.type = OURS[name]
    built = [build_detector(cfg) for cfg in (ours, theirs)]
    assert [type(each.bbox_head) for each in built] == [MODELS.get(f'mmml_losses.{OURS[name]}'), MODELS.get(OURS[name])]
    losses = [losses_in(each, *batch()) for each in built]
    torch.testing.assert_close(*losses, rtol=0, atol=0)
    found = [detections(each, *batch()) for each in built]
    assert torch.equal(found[0].scores, found[1].scores)
    assert torch.equal(found[0].labels, found[1].labels)
