import numpy as np
import pytest

from mmml_losses.evaluation import cost_sensitive_hamming_loss


def by_loop(scores, labels, threshold):
    losses = []
    for row, truth in zip(scores, labels, strict=True):
        loss = 0.0
        for kind in (0, 1):
            members = [score for score, label in zip(row, truth, strict=True) if label == kind]
            wrong = [score for score in members if (score >= threshold) != kind]
            loss += len(wrong) / len(members) if members else 0
        losses.append(loss)
    return np.mean(losses)


@pytest.mark.parametrize('threshold', [0.2, 0.5, 2.0])
@pytest.mark.parametrize('unknown', [0.0, 0.4])
def test_equals_a_loop(threshold, unknown):
    rng = np.random.default_rng(0)
    scores = rng.integers(0, 6, (50, 7)) / 5
    labels = (rng.random(scores.shape) < 0.3).astype(int)
    labels[rng.random(scores.shape) < unknown] = -1
    labels[0], labels[1] = 0, 1
    assert cost_sensitive_hamming_loss(scores, labels, threshold) == pytest.approx(by_loop(scores, labels, threshold))


def test_it_counts_disagreements_and_weighs_rare_positives_as_all_negatives():
    labels = np.array([[1, 0, 0, 0]])
    assert cost_sensitive_hamming_loss(labels, labels) == 0
    assert cost_sensitive_hamming_loss(1 - labels, labels) == 2
    assert cost_sensitive_hamming_loss([[0, 0, 0, 0]], labels) == 1
    assert cost_sensitive_hamming_loss([[1, 1, 0, 0]], labels) == pytest.approx(1 / 3)
    assert np.isnan(cost_sensitive_hamming_loss(np.zeros((0, 3)), np.zeros((0, 3))))
