"""What today's public implementations of these losses get wrong, and ours must not."""

import weakref

import pytest
import torch

from tests.helpers.losses_table import TABLE, build, context, evaluate, gradient, is_pointwise

# Losses whose cost of a confidently wrong positive is that of BCE: its gradient is -1 times the weight of the label.
FULL_SLOPE = ['bce', 'wan', 'focal', 'asl', 'asl_without_margin', 'focal_margin', 'mse_negative', 'hill', 'spa', 'las']
FULL_SLOPE += ['splc', 'lasd', 'll_r', 'll_ct', 'em', 'epr']


@pytest.mark.parametrize('name', TABLE)
@pytest.mark.parametrize('logit', [20.0, -20.0, 88.0, -88.0, 1000.0, -1000.0, 60000.0, -60000.0])
def test_half_precision_gives_no_nan(name, logit):
    logits = torch.full((2, 3), logit, dtype=torch.float16, requires_grad=True)
    loss = evaluate(name, logits, torch.tensor([[1, 0, 0], [0, 0, 1]]))
    assert loss.isfinite()
    assert gradient(loss, logits).isfinite().all()


@pytest.mark.parametrize('name', FULL_SLOPE)
@pytest.mark.parametrize('logit', [-20.0, -100.0, -1e4])
def test_a_confidently_wrong_positive_keeps_its_gradient(name, logit):
    logits = torch.tensor([[logit, -30.0]], requires_grad=True)
    loss = evaluate(name, logits, torch.tensor([[1.0, 0.0]]), reduction_override='sum')
    assert gradient(loss, logits)[0, 0].item() == pytest.approx(-1, abs=1e-5)


@pytest.mark.parametrize('name', TABLE)
def test_a_call_without_gradients_leaves_the_mode(name):
    logits = torch.randn(2, 3, requires_grad=True)
    for mode in (True, False):
        with torch.set_grad_enabled(mode):
            evaluate(name, logits, torch.tensor([[1, 0, 0], [0, 0, 1]]))
            assert torch.is_grad_enabled() is mode


@pytest.mark.parametrize('name', TABLE)
def test_the_batch_can_be_freed(name):
    loss = build(name, 3, labels=torch.tensor([[1, 0, 0], [0, 0, 1]]))
    logits = torch.randn(2, 3, requires_grad=True)
    watched = weakref.ref(logits)
    loss(logits, torch.tensor([[1, 0, 0], [0, 0, 1]]), **context(logits)).backward()
    del logits
    assert watched() is None


@pytest.mark.parametrize('name', TABLE)
def test_a_batch_without_positives_is_a_number(name):
    logits = torch.randn(4, 3, requires_grad=True)
    loss = evaluate(name, logits, torch.zeros(4, 3))
    assert loss.isfinite()
    assert gradient(loss, logits).isfinite().all()


@pytest.mark.parametrize('name', [name for name in TABLE if is_pointwise(name)])
def test_the_logits_of_the_caller_stay(name):
    logits = torch.randn(4, 3)
    before = logits.clone()
    evaluate(name, logits, torch.zeros(4, 3))  # without requires_grad nothing would stop a change in place
    assert torch.equal(logits, before)
