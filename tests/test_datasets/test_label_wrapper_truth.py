"""True labels are there for analysis, and training is the same whatever they are."""

import numpy as np
import pytest
import torch
from mmengine.dataset import pseudo_collate
from mmengine.registry import DefaultScope

import mmml_losses  # noqa: F401 (repairs the import of torchvision that mmpretrain needs)
from mmml_losses.datasets import LabelWrapper, MissingLabels, PartialLabels, SinglePositive
from mmml_losses.losses.core import context
from mmml_losses.registry import MODELS
from tests.helpers.toy import Toy, array

pytest.importorskip('mmpretrain')
heads = pytest.importorskip('mmml_losses.models.heads')

OBSERVED = np.array([[1, 0, 0, 0], [0, 0, 1, 0], [0, 1, 0, 1]], dtype=np.int8)
TRUTHS = ([[0, 1, 2], [2, 3], [1, 3]], [[0], [0, 1, 2, 3], [0, 1, 3]])
LOSS_TYPES = ('BCELoss', 'SPLCLoss', 'LASDLoss', 'LargeLossCorrection', 'ROLELoss', 'EMAPLLoss')


class Observed(LabelWrapper):
    """Hides and adds labels until they are the given ones."""

    def __init__(self, dataset, labels=OBSERVED):
        self.given = labels
        super().__init__(dataset)

    def relabel(self, samples):
        return self.given


class MakeImage:
    """An image that does not depend on the labels."""

    def __call__(self, results):
        image = np.random.RandomState(results['sample_idx']).randint(0, 255, (8, 8, 3), dtype=np.uint8)
        return dict(results, img=image, img_shape=(8, 8), ori_shape=(8, 8))


def packed(rows, **pack):
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        return Toy(rows, pipeline=[MakeImage(), dict(type='mmpretrain.PackInputs', **pack)])


def train_step(dataset, loss_type):
    """Loss and gradients of one step of a linear model on all samples."""
    torch.manual_seed(0)
    settings = dict(type=f'mmml_losses.{loss_type}')
    if loss_type == 'ROLELoss':
        settings |= dict(num_samples=3, num_classes=4, expected_positives=1.5)
    head = MODELS.build(dict(type='mmml_losses.MultiLabelHead', num_classes=4, in_channels=192, loss=settings))
    batch = pseudo_collate([dataset[idx] for idx in range(len(dataset))])
    features = torch.stack(batch['inputs']).flatten(1).float() / 255
    for loss in head.modules():
        if getattr(loss, 'wants_training_labels', False):
            loss.see_training_labels(torch.from_numpy(dataset.observed_labels()), torch.arange(len(dataset)))
    losses = head.loss((features,), batch['data_samples'])
    total = sum(value.sum() for value in losses.values())
    gradients = torch.autograd.grad(
        total, [weight for weight in head.parameters() if weight.requires_grad], allow_unused=True
    )
    return total.item(), gradients


@pytest.mark.parametrize('loss_type', LOSS_TYPES)
def test_a_training_step_is_the_same_whatever_the_truth(loss_type, monkeypatch):
    # As a Runner would announce: late enough for every loss to correct.
    for module in (heads, context):
        monkeypatch.setattr(module, 'runner_info', dict(epoch=7, max_epochs=9).get)
    (first, first_gradients), (second, second_gradients) = (
        train_step(Observed(packed(rows)), loss_type) for rows in TRUTHS
    )
    assert first == second
    assert first != 0
    for one, other in zip(first_gradients, second_gradients, strict=True):
        assert (one is None and other is None) or torch.equal(one, other)
    # And different if it is observed: the comparison can fail.
    third, _ = train_step(Observed(packed(TRUTHS[0]), array(TRUTHS[0])), loss_type)
    assert third != first


@pytest.mark.parametrize(
    'wrap', [lambda d: MissingLabels(d, 1), SinglePositive, lambda d: PartialLabels(SinglePositive(d), 0.5)]
)
def test_data_samples_have_observed_labels_alone(wrap):
    dataset = wrap(packed(TRUTHS[0]))
    for idx, row in enumerate(dataset.observed_labels()):
        item = dataset[idx]
        sample = item['data_samples']
        assert item.keys() == {'inputs', 'data_samples'}
        assert sample.gt_label.tolist() == np.flatnonzero(row == 1).tolist()
        assert set(sample.keys()) == {'gt_label'} | ({'gt_score'} if (dataset.observed_labels() == -1).any() else set())
        assert 'true_label' not in sample.metainfo


def test_the_truth_is_packed_when_it_is_asked_for():
    dataset = SinglePositive(packed(TRUTHS[0], algorithm_keys=['true_label']))
    assert [dataset[idx]['data_samples'].true_label.tolist() for idx in range(3)] == array(TRUTHS[0]).tolist()
