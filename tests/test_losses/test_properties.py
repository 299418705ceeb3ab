"""Properties of every loss on whatever logits and labels hypothesis comes up with."""

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.helpers.losses_table import SUMS, TABLE, context, evaluate, gradient

NAMES = [name for name in TABLE if name not in SUMS]
PROPERTY = settings(max_examples=20, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def batches(draw):
    """Logits (N, C), of ordinary and of extreme size, and labels with unknown ones."""
    samples, classes = draw(st.integers(1, 5)), draw(st.integers(2, 5))
    number = st.one_of(st.floats(-10, 10, width=32), st.sampled_from([-1e4, -100.0, 0.0, 100.0, 1e4]))
    rows = st.lists(number, min_size=samples * classes, max_size=samples * classes)
    logits = torch.tensor(draw(rows), dtype=torch.float64).view(samples, classes)
    labels = draw(st.lists(st.sampled_from([0, 0, 1, -1]), min_size=samples * classes, max_size=samples * classes))
    return logits, torch.tensor(labels, dtype=torch.float64).view(samples, classes)


@pytest.mark.parametrize('name', NAMES)
@PROPERTY
@given(batch=batches())
def test_loss_and_gradient_of_finite_input_are_finite(name, batch):
    logits, targets = batch
    for dtype in (torch.float32, torch.float64):
        inputs = logits.to(dtype).requires_grad_()
        loss = evaluate(name, inputs, targets)
        assert loss.isfinite()
        assert gradient(loss, inputs).isfinite().all()


@pytest.mark.parametrize('name', NAMES)
@PROPERTY
@given(batch=batches(), scores=st.integers(0, 1000))
def test_unknown_labels_never_change_anything(name, batch, scores):
    logits, targets = batch
    noise = 50 * torch.randn(logits.shape, generator=torch.Generator().manual_seed(scores), dtype=torch.float64)
    views = context(logits)['views']
    losses, slopes = [], []
    for inputs in (logits.clone(), torch.where(targets < 0, noise, logits)):
        inputs.requires_grad_()
        losses.append(evaluate(name, inputs, targets, views=views))
        slopes.append(gradient(losses[-1], inputs))
    torch.testing.assert_close(*losses)
    torch.testing.assert_close(*slopes)
    assert (slopes[0][targets < 0] == 0).all()


@pytest.mark.parametrize('name', [name for name in NAMES if not TABLE[name].get('bucket_size')])
@PROPERTY
@given(batch=batches(), data=st.data())
def test_permuting_the_batch_permutes_the_gradient(name, batch, data):
    logits, targets = batch
    rows = torch.tensor(data.draw(st.permutations(range(len(logits)))))
    # What is known of each class, or estimated for it, would have to move with the columns.
    fixed = name == 'role' or 'class_frequencies' in TABLE[name]
    columns = torch.tensor(
        data.draw(st.just(range(logits.size(1))) if fixed else st.permutations(range(logits.size(1))))
    )
    views = context(logits)['views']
    inputs = logits.clone().requires_grad_()
    loss = evaluate(name, inputs, targets, views=views)
    moved = logits[rows][:, columns].requires_grad_()
    moved_loss = evaluate(
        name,
        moved,
        targets[rows][:, columns],
        sample_idx=rows,
        views=tuple(view[rows][:, columns] for view in views),
    )
    torch.testing.assert_close(moved_loss, loss)
    slope, moved_slope = gradient(loss, inputs), gradient(moved_loss, moved)
    torch.testing.assert_close(moved_slope, slope[rows][:, columns])
