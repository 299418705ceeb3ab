"""Where losses get the epoch and the samples from, and their errors where nothing provides them."""

import pytest
import torch
from mmengine.logging import MessageHub

from mmml_losses.losses.core.context import require_sample_idx, resolve


@pytest.fixture
def hub(request):
    """Create a message hub, as a Runner does."""
    name = request.node.name
    yield MessageHub.get_instance(name)
    MessageHub._instance_dict.pop(name)


def test_the_argument_goes_before_the_runner(hub):
    hub.update_info('epoch', 7)
    hub.update_info('max_epochs', 10)
    assert resolve('epoch', 0, 'SomeLoss') == 0
    assert resolve('epoch', None, 'SomeLoss') == 7
    assert resolve('max_epochs', 3, 'SomeLoss') == 3
    assert resolve('max_epochs', None, 'SomeLoss') == 10


def test_without_a_runner_the_error_says_what_to_do(hub):
    with pytest.raises(ValueError, match=r'epoch must be known to SomeLoss.*epoch=.*counted from 0.*Runner'):
        resolve('epoch', None, 'SomeLoss')
    with pytest.raises(ValueError, match=r'max_epochs must be known to SomeLoss.*config'):
        resolve('max_epochs', None, 'SomeLoss')


def test_missing_indices_name_the_key_of_the_pipeline():
    with pytest.raises(ValueError, match=r"SomeLoss.*'sample_idx' to meta_keys of PackInputs.*MultiLabelHead"):
        require_sample_idx(None, 'SomeLoss')


@pytest.mark.parametrize('sample_idx', [torch.tensor([3, 1], dtype=torch.int32), [3, 1]])
def test_indices_come_as_tensors_or_lists(sample_idx):
    indices = require_sample_idx(sample_idx, 'SomeLoss', batch_size=2)
    assert indices.dtype == torch.int64
    assert indices.tolist() == [3, 1]


def test_an_empty_batch_has_no_indices():
    assert require_sample_idx(torch.as_tensor([]), 'SomeLoss', batch_size=0).dtype == torch.int64


@pytest.mark.parametrize(
    ('sample_idx', 'message'),
    [
        (torch.tensor([0.5, 1.0]), r'integers of shape \(N,\), got torch.float32'),
        (torch.zeros(2, 1, dtype=torch.int64), r'integers of shape \(N,\), got torch.int64 of shape \(2, 1\)'),
        (torch.tensor([1, 2, 3]), 'must name the 2 samples of the batch, got 3 indices'),
    ],
)
def test_other_indices_are_rejected(sample_idx, message):
    with pytest.raises(ValueError, match=message):
        require_sample_idx(sample_idx, 'SomeLoss', batch_size=2)
