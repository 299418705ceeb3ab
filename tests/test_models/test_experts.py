"""Experts: what each is trained on, how they predict together, and what each remembers."""

import math

import pytest
import torch
from mmengine.config import Config
from mmengine.logging import MessageHub
from mmpretrain.registry import MODELS
from mmpretrain.structures import DataSample

from mmml_losses.losses import BCELoss, SPALoss, TemperatureLink
from tests.helpers.training import assert_resumes

COUNTS, IMAGES = [50, 10, 2, 0], 100
FREQUENCIES = dict(class_frequencies=COUNTS, num_samples=IMAGES)
TARGET = torch.tensor([[1, 0, 0, 1], [0, 0, 0, 0], [0, 1, 0, 0]])
SPA_LPR = dict(
    type='mmml_losses.SumLoss',
    losses=dict(spa=dict(type='mmml_losses.SPALoss'), lpr=dict(type='mmml_losses.LabelPairRegularizer')),
)


def build(**changes):
    torch.manual_seed(0)
    settings = dict(type='mmml_losses.ExpertsHead', num_classes=4, in_channels=8, **FREQUENCIES)
    head = MODELS.build({**settings, **changes})
    head.init_weights()
    return head


def feats():
    return (torch.randn(3, 8, generator=torch.Generator().manual_seed(1)),)


def samples():
    return [DataSample(metainfo=dict(sample_idx=i)).set_gt_label(label) for i, label in enumerate(([0, 3], [], [1]))]


def scores(head, features=None):
    return torch.stack([sample.pred_score for sample in head.predict(features or feats())])


def with_logits(*rows, **changes):
    """Return a head whose experts give these logits for one sample, whatever the features."""
    head = build(log_prior_scales=range(len(rows)), **changes)
    head.expert_logits = lambda feats: [row.unsqueeze(0) for row in rows]
    return head


def test_each_expert_learns_from_logits_with_its_share_of_the_prior():
    head = build(log_prior_scales=(0.0, 1.0, 2.0))
    losses = head.loss(feats(), samples())
    expected = []
    for expert, scale in zip(head.fc, (0, 1, 2), strict=True):
        logits = feats()[0] @ expert.weight.T + expert.bias
        prior = torch.tensor([math.log(max(count, 1) / IMAGES) for count in COUNTS])
        expected.append(torch.nn.functional.binary_cross_entropy_with_logits(logits + scale * prior, TARGET.float()))
    assert list(losses) == ['loss', 'expert_0', 'expert_1', 'expert_2']
    for number in range(3):
        torch.testing.assert_close(losses[f'expert_{number}'], expected[number])
    torch.testing.assert_close(losses['loss'], sum(expected) / 3)


def test_experts_count_once_in_the_total():
    head = build(loss=SPA_LPR)
    losses = head.loss(feats(), samples())
    assert list(losses) == ['loss', 'spa', 'lpr', 'expert_0', 'expert_1', 'expert_2']
    torch.testing.assert_close(losses['loss'], losses['spa'] + losses['lpr'])
    assert not any(losses[name].requires_grad for name in list(losses)[1:])
    backbone = dict(type='LeNet5')
    total, _ = MODELS.build(dict(type='ImageClassifier', backbone=backbone, head=head)).parse_losses(losses)
    torch.testing.assert_close(total, losses['loss'])


def test_gradients_reach_every_expert():
    head = build()
    head.loss(feats(), samples())['loss'].backward()
    parameters = dict(head.named_parameters())
    assert set(parameters) == {f'fc.{number}.{name}' for number in range(3) for name in ('weight', 'bias')}
    assert all(parameter.grad.any() for parameter in parameters.values())


@pytest.mark.parametrize('loss', ['BCELoss', 'SPALoss'])
def test_predictions_are_means_of_logits_by_default(loss):
    head = build(loss=dict(type=f'mmml_losses.{loss}'), init_cfg=dict(type='Normal', layer='Linear', std=2.0))
    expected = head.loss_module.probabilities(sum(head.expert_logits(feats())) / 3)
    torch.testing.assert_close(scores(head), expected)


def test_a_product_of_experts_multiplies_their_odds():
    rows = torch.tensor([[2.0, -3.0, 0.5, 12.0], [-1.0, -4.0, 0.5, 16.0]])
    odds = rows.double().exp().prod(dim=0).sqrt()
    torch.testing.assert_close(scores(with_logits(*rows))[0], (odds / (1 + odds)).float())


def test_half_precision_logits_are_averaged_in_single_precision():
    head = with_logits(torch.full((4,), 60000.0).half(), torch.full((4,), 60000.0).half())
    assert head(feats()).tolist() == [[60000.0] * 4]


@pytest.mark.parametrize('loss', ['BCELoss', 'SPALoss', 'FocalLoss'])
def test_predictions_can_be_means_of_probabilities(loss):
    head = build(
        average='probabilities',
        loss=dict(type=f'mmml_losses.{loss}', **(dict(link='phi') if loss == 'FocalLoss' else {})),
        init_cfg=dict(type='Normal', layer='Linear', std=2.0),
    )
    probabilities = [head.loss_module.probabilities(logits) for logits in head.expert_logits(feats())]
    torch.testing.assert_close(scores(head), sum(probabilities) / 3, rtol=1e-4, atol=1e-6)
    assert not torch.allclose(probabilities[0], probabilities[1], atol=0.05)


def test_extreme_probabilities_survive_the_mean():
    rows = torch.tensor([[-80.0, 80.0, -80.0, 12.0], [-81.0, 81.0, 3.0, 14.0]])
    present, absent = (each.double().sigmoid().mean(dim=0) for each in (rows, -rows))
    head = with_logits(*rows, average='probabilities')
    torch.testing.assert_close(head(feats())[0], (present.log() - absent.log()).float(), rtol=1e-5, atol=0)
    torch.testing.assert_close(scores(head)[0], present.float(), rtol=1e-5, atol=0)


def test_half_precision_logits_keep_the_mean():
    rows = torch.tensor([[-20.0, 5.0, 0.0, 9.0], [-22.0, -5.0, 0.0, 9.0]]).half()
    head = with_logits(*rows, average='probabilities')
    torch.testing.assert_close(scores(head)[0], rows.double().sigmoid().mean(dim=0).float(), rtol=1e-5, atol=0)
    assert head.loss(feats(), samples()[:1])['loss'].dtype == torch.float32


@pytest.mark.parametrize('average', ['logits', 'probabilities'])
def test_a_temperature_scales_the_mean_of_the_experts(average):
    head = build(average=average, loss=dict(type='mmml_losses.BCELoss', link=dict(type='mmml_losses.TemperatureLink')))
    before = head(feats()).detach()
    link = head.loss_module.link
    assert isinstance(link, TemperatureLink)
    link.temperature.fill_(2.0)
    torch.testing.assert_close(head(feats()), before)  # what the temperature was fitted to
    torch.testing.assert_close(scores(head), (before / 2).sigmoid())


def test_a_loss_of_mmpretrain_trains_experts():
    head = build(average='probabilities', loss=dict(type='mmpretrain.CrossEntropyLoss', use_sigmoid=True))
    assert head.loss(feats(), samples())['loss'].isfinite()
    mean = sum(logits.sigmoid() for logits in head.expert_logits(feats())) / 3
    torch.testing.assert_close(scores(head), mean)


def test_every_expert_remembers_for_itself():
    loss = dict(type='mmml_losses.LargeLossCorrection', permanent=True, relative_increase=0.1)
    head = build(loss=loss, log_prior_scales=(0.0, 5.0))
    MessageHub.get_current_instance().update_info('epoch', 1)
    with torch.no_grad():
        for number, expert in enumerate(head.fc):  # each is sure of another class
            expert.weight.zero_()
            expert.bias.copy_(torch.eye(4)[1 + number] * 40)
    head.loss(feats(), samples())
    first, second = (module.memory.rows() for module in (head.loss_module, *head.other_losses))
    assert first[:, 1].any()
    assert second[:, 2].any()
    assert not torch.equal(first, second)
    stored = head.state_dict()
    other = build(loss=loss, log_prior_scales=(0.0, 5.0))
    other.load_state_dict(stored)
    assert torch.equal(other.other_losses[0].memory.rows(), second)


def test_frequencies_come_from_the_training_labels():
    head = build(class_frequencies=None, num_samples=None)
    assert head.wants_training_labels
    with pytest.raises(ValueError, match=r'class frequencies are not known yet: .*TrainingSetHook'):
        head.loss(feats(), samples())
    head.see_training_labels(torch.tensor([[1, 1, 0, -1], [1, 0, 0, 0]]), torch.arange(2))
    assert head.frequencies.counts.tolist() == [2, 1, 0, 0]
    assert not head.wants_training_labels
    assert not build().wants_training_labels
    loaded = build(class_frequencies=None, num_samples=None)
    loaded.load_state_dict(head.state_dict())
    assert loaded.loss(feats(), samples())['loss'] == head.loss(feats(), samples())['loss']


def test_prediction_needs_no_frequencies():
    assert torch.equal(scores(build(class_frequencies=None, num_samples=None)), scores(build()))


@pytest.mark.parametrize(
    ('changes', 'message'),
    [
        (dict(log_prior_scales=()), r'log_prior_scales must be a number for each expert, got \(\)'),
        (dict(log_prior_scales=3), 'log_prior_scales must be a number for each expert, got 3'),
        (dict(average='mean'), "average must be 'logits' or 'probabilities', got 'mean'"),
        (
            dict(average='probabilities', loss=dict(type='mmml_losses.AsymmetricLoss', link='phi')),
            'loss must have a link with an inverse',
        ),
        (dict(class_frequencies=[1, 2, 3, 4], num_samples=None), 'num_samples, .* must come with class_frequencies'),
    ],
)
def test_bad_arguments_are_rejected(changes, message):
    with pytest.raises(ValueError, match=message):
        build(**changes)


def test_frequencies_of_other_classes_are_rejected():
    with pytest.raises(ValueError, match='class_frequencies must have one count for each of the 4 classes'):
        build(class_frequencies=[1, 2, 3]).loss(feats(), samples())


def test_views_are_rejected():
    with pytest.raises(ValueError, match='head must be of one classifier to compare views, got ExpertsHead'):
        build().loss(feats(), samples(), views=[feats()[0]])


def test_copies_of_the_loss_are_of_its_kind():
    head = build(loss=SPALoss())
    assert [type(loss) for loss in head.other_losses] == [SPALoss, SPALoss]
    assert isinstance(build().loss_module, BCELoss)


@pytest.fixture
def experts_run(small_run):
    """Return a function that makes a config of experts whose losses remember samples and count classes."""

    def make() -> Config:
        cfg = small_run('bce_digits.py', max_epochs=2)
        cfg.train_dataloader.dataset.indices = 32
        loss = dict(
            type='mmml_losses.SumLoss',
            losses=dict(
                cp=dict(type='mmml_losses.LargeLossCorrection', permanent=True, relative_increase=0.05),
                db=dict(type='mmml_losses.DBFocalLoss'),
            ),
        )
        cfg.model.head.update(type='mmml_losses.ExpertsHead', loss=loss)
        return cfg

    return make


def test_a_runner_trains_experts_and_resumes(experts_run):
    runner = assert_resumes(experts_run)
    head = runner.model.head
    assert head.frequencies.num_samples == 32
    assert all(loss.losses['db'].frequencies.num_samples == 32 for loss in (head.loss_module, *head.other_losses))
    hub = runner.message_hub
    mean = sum(hub.get_scalar(f'train/expert_{number}').current() for number in range(3)) / 3
    assert hub.get_scalar('train/loss').current() == pytest.approx(mean, rel=1e-5)
    assert hub.get_scalar('val/multi-label/mAP@class').current() > 0
