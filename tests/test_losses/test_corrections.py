"""SPLC and LASD: when they correct, which labels, and by how much they weigh them."""

import copy

import pytest
import torch
from mmengine.logging import MessageHub

from mmml_losses import functional as F
from mmml_losses.losses import LASDLoss, LASLoss, SPLCLoss


@pytest.fixture
def batch():
    logits = torch.tensor([[3.0, 3.0, -2.0, 0.1], [5.0, -1.0, 0.5, 4.0]], dtype=torch.float64)
    return logits.requires_grad_(), torch.tensor([[1, 0, 0, -1], [0, 1, 0, -1]], dtype=torch.float64)


def test_splc_corrects_likely_labels_and_never_an_unknown_label(batch):
    corrected = SPLCLoss().corrected_targets(*batch, epoch=1)
    assert corrected.tolist() == [[1, 1, 0, -1], [1, 1, 1, -1]]
    assert SPLCLoss(threshold=0.9).corrected_targets(*batch, epoch=1).tolist() == [[1, 1, 0, -1], [1, 1, 0, -1]]
    assert torch.equal(SPLCLoss().corrected_targets(*batch, epoch=0), batch[1])


def test_the_threshold_is_a_probability_of_the_link(batch):
    logits, targets = batch
    loss = SPLCLoss(positive='spa', negative='spa', threshold=0.5, link=dict(type='SPALink'))
    believed = (targets == 0) & (F.spa_link(logits) > 0.5)
    assert 0 < believed.sum() < ((targets == 0) & (logits.sigmoid() > 0.5)).sum()
    assert torch.equal(loss.corrected_targets(logits, targets, epoch=1) == 1, believed | (targets == 1))


def test_splc_takes_the_epoch_of_the_runner(batch):
    hub = MessageHub.get_current_instance()
    before = hub.get_info('epoch', None)
    try:
        for epoch in (0, 1, 5):
            hub.update_info('epoch', epoch)
            torch.testing.assert_close(SPLCLoss()(*batch), SPLCLoss()(*batch, epoch=epoch))
    finally:
        hub.update_info('epoch', before)


def test_splc_without_an_epoch_says_what_is_missing(batch, monkeypatch):
    monkeypatch.setattr('mmml_losses.losses.core.context.runner_info', lambda key: None)
    with pytest.raises(ValueError, match=r'epoch must be known to SPLCLoss, got None: call the loss with epoch='):
        SPLCLoss()(*batch)


@pytest.mark.parametrize('weighted', [False, True])
def test_the_spared_margin_is_that_of_the_term(batch, weighted):
    logits, targets = batch
    term = dict(type='focal_margin', margin=0.7, **(dict(weight=2.0) if weighted else {}))
    values = SPLCLoss(positive=term, reduction='none')(logits, targets, epoch=1)
    pseudo = SPLCLoss().corrected_targets(logits, targets, epoch=1) != targets
    expected = F.asymmetric_positive(logits, gamma=2.0) * (2 if weighted else 1)
    torch.testing.assert_close(values[pseudo], expected[pseudo])


@pytest.mark.parametrize(
    ('positives', 'leverage', 'classes', 'expected'),
    [(1.46, 0.1, 20, (1 + 0.1 * 0.46) / 18.54), (2.94, 0.03, 80, (1 + 0.03 * 1.94) / 77.06), (1.0, 0.5, 5, 0.25)],
)
def test_leverage_of_theorem_5_4(positives, leverage, classes, expected):
    assert F.balanced_leverage(leverage, positives, classes) == pytest.approx(expected)
    # Positives and negatives of an image of that many positives weigh the same.
    assert 1 + leverage * (positives - 1) == pytest.approx(expected * (classes - positives))


def test_lasd_estimates_the_expected_positives(batch):
    logits, targets = batch
    loss = LASDLoss(positive_leverage=0.1, threshold=0.9)
    found = LASDLoss(positive_leverage=0.1, threshold=0.9, expected_positives=2.0)
    torch.testing.assert_close(
        loss(logits, targets), found(logits, targets)
    )  # 2 observed and 2 pseudo-positives, of 2 images
    assert loss.estimated_positives == 2.0
    loss(-logits, targets)  # no pseudo-positives
    assert loss.estimated_positives.item() == pytest.approx(2.0 - 0.01)


def test_the_estimate_is_in_the_checkpoint_and_rests_in_evaluation(batch):
    logits, targets = batch
    loss = LASDLoss()
    loss(logits, targets)
    other = LASDLoss()
    other.load_state_dict(copy.deepcopy(loss.state_dict()))
    other.eval()
    before = other.estimated_positives.clone()
    torch.testing.assert_close(other(logits, targets), loss(logits, targets))
    other(-logits, targets)
    assert torch.equal(other.estimated_positives, before)
    assert not LASDLoss(expected_positives=1.5).state_dict()


def test_the_estimate_stays_between_one_label_and_all():
    logits = torch.full((3, 4), 9.0)
    loss = LASDLoss()
    assert loss(logits, torch.eye(4)[:3]).isfinite()  # all are pseudo-positives
    assert LASDLoss()(logits, torch.zeros(3, 4)).isfinite()
    assert LASDLoss()(-logits, torch.zeros(3, 4)).isfinite()  # none at all
    assert LASDLoss()(torch.zeros(3, 1), torch.ones(3, 1)).isfinite()


@pytest.mark.parametrize(
    ('make', 'message'),
    [
        (lambda: SPLCLoss(threshold=0.0), r'threshold must be in \(0, 1\], got 0.0'),
        (lambda: SPLCLoss(positive='hill'), r"positive must be one of bce, .*, got 'hill'"),
        (lambda: LASDLoss(threshold=1.2), r'threshold must be in \(0, 1\], got 1.2'),
        (lambda: LASDLoss(positive_leverage=-0.1), 'positive_leverage must be at least 0, got -0.1'),
        (lambda: LASDLoss(momentum=0), r'momentum must be in \(0, 1\], got 0'),
        (
            lambda: LASDLoss(expected_positives=2, negative_leverage=0.1),
            'give expected_positives or negative_leverage, not both.* got 2 and 0.1',
        ),
        (
            lambda: LASDLoss(expected_positives=5)(torch.zeros(2, 4), torch.zeros(2, 4)),
            'expected_positives must be above 0 and below the number of classes, 4, got 5',
        ),
        (
            lambda: LASLoss(expected_positives=0)(torch.zeros(2, 4), torch.zeros(2, 4)),
            'expected_positives must be above 0',
        ),
    ],
)
def test_bad_arguments_are_rejected(make, message):
    with pytest.raises(ValueError, match=message):
        make()
