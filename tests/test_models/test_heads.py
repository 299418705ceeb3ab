"""The head, and MMPretrain's own heads, with the losses of this package."""

import pytest
import torch
from mmengine.logging import MessageHub
from mmengine.optim import build_optim_wrapper
from mmpretrain.registry import MODELS
from mmpretrain.structures import DataSample

from mmml_losses.losses import BCELoss, SPALoss

SPA_LPR = dict(
    type='mmml_losses.SumLoss',
    losses=dict(spa=dict(type='mmml_losses.SPALoss'), lpr=dict(type='mmml_losses.LabelPairRegularizer')),
)


def build_head(**kwargs):
    return MODELS.build(
        {'type': 'mmml_losses.MultiLabelHead', 'num_classes': 4, **kwargs}
        if 'classifier' in kwargs
        else {'type': 'mmml_losses.MultiLabelHead', 'num_classes': 4, 'in_channels': 8, **kwargs}
    )


def samples(*labels):
    return [DataSample(metainfo=dict(sample_idx=i)).set_gt_label(label) for i, label in enumerate(labels)]


def scored_samples(*scores):
    return [DataSample().set_gt_score(torch.tensor(score)) for score in scores]


@pytest.fixture
def feats():
    return (torch.randn(3, 8, generator=torch.Generator().manual_seed(0)),)


def test_loss_is_the_loss_of_its_logits(feats):
    head = build_head(loss=dict(type='mmml_losses.SPALoss'))
    target = torch.tensor([[1, 0, 0, 1], [0, 0, 0, 0], [0, 1, 0, 0]])
    losses = head.loss(feats, samples([0, 3], [], [1]))
    torch.testing.assert_close(losses['loss'], SPALoss()(head(feats), target))


def test_reduction_is_the_reduction_of_the_loss(feats):
    data = samples([0, 3], [], [1])
    head = build_head(loss=dict(type='mmml_losses.BCELoss'))
    total = build_head(loss=dict(type='mmml_losses.BCELoss', reduction='sum'))
    total.load_state_dict(head.state_dict())
    torch.testing.assert_close(total.loss(feats, data)['loss'], 12 * head.loss(feats, data)['loss'])


def test_bce_is_the_default(feats):
    assert isinstance(build_head().loss_module, BCELoss)


def test_a_label_given_twice_counts_once(feats):
    head = build_head()
    assert head.loss(feats, samples([0, 0], [], []))['loss'] == head.loss(feats, samples([0], [], []))['loss']


@pytest.mark.parametrize('label', [-1, 4])
def test_labels_out_of_range_are_rejected(feats, label):
    with pytest.raises(ValueError, match=rf'gt_label must be class indices from 0 to 3, got \[0, {label}\]'):
        build_head().loss(feats, samples([0, label], [], []))


def test_parts_are_logged_and_counted_once(feats):
    head = build_head(loss=SPA_LPR)
    losses = head.loss(feats, samples([0, 3], [2], [1]))
    assert list(losses) == ['loss', 'spa', 'lpr']
    torch.testing.assert_close(losses['loss'], losses['spa'] + losses['lpr'])
    assert not losses['spa'].requires_grad
    model = MODELS.build(
        dict(
            type='ImageClassifier',
            backbone=dict(type='LeNet5'),
            head=dict(type='mmml_losses.MultiLabelHead', num_classes=4, in_channels=8, loss=SPA_LPR),
        )
    )
    total, logged = model.parse_losses(losses)
    torch.testing.assert_close(total, losses['loss'])
    assert set(logged) == {'loss', 'spa', 'lpr'}


def test_epoch_and_sample_indices_reach_the_loss(feats):
    seen = {}

    class Spy(BCELoss):
        def values(self, logits, target, **kwargs):
            seen.update(kwargs)
            return super().values(logits, target)

    head = build_head(loss=Spy())
    MessageHub.get_current_instance().update_info('epoch', 7)
    head.loss(feats, samples([0], [1], [2]))
    assert seen['epoch'] == 7
    assert seen['sample_idx'].tolist() == [0, 1, 2]
    head.loss(feats, scored_samples([0.0] * 4, [0.0] * 4, [1.0] * 4))
    assert seen['sample_idx'] is None


def test_unknown_labels_reach_losses_that_know_them(feats):
    data = scored_samples([1.0, -1.0, 0.0, -1.0], [0.0, 1.0, -1.0, -1.0], [-1.0] * 4)
    head = build_head()
    target = torch.stack([sample.gt_score for sample in data])
    torch.testing.assert_close(head.loss(feats, data)['loss'], BCELoss()(head(feats), target))


def test_unknown_labels_are_rejected_for_losses_of_mmpretrain(feats):
    head = build_head(loss=dict(type='mmpretrain.CrossEntropyLoss', use_sigmoid=True))
    known = scored_samples([1.0, 0.0, 0.0, 0.0], [0.0] * 4, [1.0] * 4)
    assert head.loss(feats, known)['loss'].isfinite()
    with pytest.raises(ValueError, match=r'CrossEntropyLoss does not know unknown labels \(-1\)'):
        head.loss(feats, scored_samples([1.0, -1.0, 0.0, 0.0], [0.0] * 4, [1.0] * 4))


def test_predictions_are_probabilities_of_the_link(feats):
    head = build_head(loss=SPA_LPR)
    with torch.no_grad():
        head.fc.weight.mul_(3)
    predicted = head.predict(feats)
    expected = SPALoss().probabilities(head(feats))
    torch.testing.assert_close(torch.stack([sample.pred_score for sample in predicted]), expected)
    assert not torch.allclose(expected, head(feats).sigmoid(), atol=0.05)
    for sample in predicted:
        assert sample.pred_label.tolist() == [i for i, p in enumerate(sample.pred_score) if p >= 0.5]


def test_predictions_need_no_patch_of_the_parent(feats, monkeypatch):
    head = build_head(loss=SPA_LPR)
    parent = MODELS.get('MultiLabelClsHead')
    assert issubclass(type(head), parent)
    monkeypatch.setattr(parent, '_get_predictions', parent._get_predictions.__wrapped__)
    predicted = torch.stack([sample.pred_score for sample in head.predict(feats)])
    torch.testing.assert_close(predicted, SPALoss().probabilities(head(feats)))
    torch.testing.assert_close(predicted.logit(), SPALoss().logit_probabilities(head(feats)))


def test_threshold_and_topk_choose_labels(feats):
    for sample in build_head(thr=0.3).predict(feats):
        assert sample.pred_label.tolist() == [i for i, p in enumerate(sample.pred_score) if p >= 0.3]
    for sample in build_head(topk=2).predict(feats):
        assert sample.pred_label.tolist() == sample.pred_score.topk(2).indices.tolist()


def test_any_classifier_by_config(feats):
    head = build_head(classifier=dict(type='torch.nn.Linear', in_features=8, out_features=4, bias=False))
    assert head.fc.bias is None
    assert head(feats).shape == (3, 4)
    with pytest.raises(ValueError, match='give either in_channels or classifier'):
        MODELS.build(dict(type='mmml_losses.MultiLabelHead', num_classes=4))


@pytest.mark.parametrize(
    'head',
    [
        dict(type='mmml_losses.MultiLabelHead'),
        dict(type='mmml_losses.ExpertsHead'),
        dict(type='mmml_losses.GCNHead', hidden_channels=6),
    ],
    ids=lambda head: head['type'],
)
def test_a_learning_rate_of_the_classifier_leaves_the_loss_alone(head):
    """Use a key other than ``head``, which would match the parameters of the loss, too."""
    role = dict(type='mmml_losses.ROLELoss', num_samples=5, num_classes=4, expected_positives=1.0)
    backbone = dict(type='ResNet', depth=18, base_channels=8, stem_channels=8)
    model = MODELS.build(
        dict(type='ImageClassifier', backbone=backbone, head=dict(num_classes=4, in_channels=8, loss=role, **head))
    )
    optimizer = build_optim_wrapper(
        model,
        dict(optimizer=dict(type='SGD', lr=0.1), paramwise_cfg=dict(custom_keys={'head.fc': dict(lr_mult=10)})),
    )
    rates = {id(group['params'][0]): group['lr'] for group in optimizer.param_groups}
    for name, parameter in model.named_parameters():
        assert rates[id(parameter)] == pytest.approx(1.0 if name.startswith('head.fc.') else 0.1), name
    names = [name for name, _ in model.named_parameters()]
    assert any(name.startswith('head.fc.') for name in names)
    assert 'head.loss_module.label_estimator' in names


@pytest.mark.parametrize(
    ('head', 'feats'),
    [
        (dict(type='MultiLabelLinearClsHead', num_classes=4, in_channels=8), (torch.randn(3, 8),)),
        (dict(type='CSRAClsHead', num_classes=4, in_channels=8, num_heads=1, lam=0.1), (torch.randn(3, 8, 5, 5),)),
    ],
)
def test_heads_of_mmpretrain_train_and_predict_with_our_losses(head, feats):
    head = MODELS.build(dict(**head, loss=dict(type='mmml_losses.SPALoss')))
    data = samples([0, 3], [], [1])
    target = torch.tensor([[1, 0, 0, 1], [0, 0, 0, 0], [0, 1, 0, 0]])
    loss = head.loss(feats, data)['loss']
    torch.testing.assert_close(loss, SPALoss(reduction='sum')(head(feats), target) / 3)
    loss.backward()
    assert all(parameter.grad is not None for parameter in head.parameters())
    scores = torch.stack([sample.pred_score for sample in head.predict(feats)])
    torch.testing.assert_close(scores, SPALoss().probabilities(head(feats)))


def test_heads_of_mmpretrain_with_their_own_losses_are_unchanged(feats):
    head = MODELS.build(dict(type='MultiLabelLinearClsHead', num_classes=4, in_channels=8))
    scores = torch.stack([sample.pred_score for sample in head.predict(feats)])
    torch.testing.assert_close(scores, head(feats).sigmoid())


def test_sum_reduction_in_a_head_of_mmpretrain_raises_advice(feats):
    head = MODELS.build(
        dict(
            type='MultiLabelLinearClsHead',
            num_classes=4,
            in_channels=8,
            loss=dict(type='mmml_losses.BCELoss', reduction='sum'),
        )
    )
    with pytest.raises(ValueError, match=r'to classify, mmml_losses\.MultiLabelHead'):
        head.loss(feats, samples([0], [1], [2]))
