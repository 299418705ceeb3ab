"""What goes wrong in widely used implementations of these measures, and does not here."""

import tracemalloc

import numpy as np
import pytest
import torch
from sklearn.metrics import label_ranking_average_precision_score

import mmml_losses  # noqa: F401  (repairs torchvision's import, which torchmetrics needs)
from mmml_losses.evaluation import average_precision, f1_scores, mean_average_precision, micro_average_precision

CONSTANT = torch.ones(4, 1), torch.tensor([[1], [0], [0], [0]])
NAN = torch.tensor([[float('nan')], [0.9], [0.8]]), torch.tensor([[1], [0], [0]])


class TestOrderOfTies:
    """Four equal scores, one positive: the order of the rows is chance, and a fourth of them are positive."""

    def test_mmpretrain_gives_100_or_25(self):
        calculate = pytest.importorskip('mmpretrain.evaluation').AveragePrecision.calculate
        scores, labels = CONSTANT
        assert (calculate(scores, labels), calculate(scores, labels.flip(0))) == (100, 25)

    @pytest.mark.parametrize('position', range(4))
    def test_ours_gives_a_fourth(self, position):
        scores, labels = CONSTANT
        assert average_precision(scores, labels.roll(position, 0)) == [0.25]
        assert average_precision(scores.T, labels.roll(position, 0).T, by='sample') == [0.25]
        assert micro_average_precision(scores, labels.roll(position, 0)) == 0.25


class TestNotANumber:
    """A diverged model scores NaN, which sorts as the highest score: a perfect ranking for its positives."""

    def test_mmpretrain_gives_100(self):
        calculate = pytest.importorskip('mmpretrain.evaluation').AveragePrecision.calculate
        assert calculate(*NAN) == 100

    def test_torchmetrics_gives_1(self):
        functional = pytest.importorskip('torchmetrics.functional.classification')
        scores, labels = NAN
        assert functional.binary_average_precision(scores[:, 0], labels[:, 0]) == 1

    @pytest.mark.parametrize(
        'measure',
        [
            average_precision,
            mean_average_precision,
            micro_average_precision,
            f1_scores,
            lambda scores, labels: average_precision(scores, labels, by='sample'),
            lambda scores, labels: average_precision(scores, labels, convention='mmpretrain'),
            lambda scores, labels: average_precision(scores, labels, convention='asl'),
        ],
    )
    @pytest.mark.parametrize('dtype', [torch.float16, torch.bfloat16, torch.float32, torch.float64])
    def test_ours_raises_with_its_position(self, measure, dtype):
        scores, labels = NAN
        with pytest.raises(ValueError, match=r'scores must not hold NaN, got NaN at \(0, 0\)'):
            measure(scores.to(dtype), labels)


class TestImagesWithoutLabels:
    """One image without a label and one that is ranked wrong: nothing to be proud of."""

    scores = np.array([[0.1, 0.2], [0.9, 0.1]])
    labels = np.array([[0, 0], [0, 1]])

    def test_scikit_learn_counts_them_as_1(self):
        assert label_ranking_average_precision_score(self.labels, self.scores) == (1 + 0.5) / 2

    def test_ours_leaves_them_out_or_counts_them_as_0_and_reports_it(self):
        assert mean_average_precision(self.scores, self.labels, by='sample') == (0.5, 1, 1, 1)
        zero = mean_average_precision(self.scores, self.labels, by='sample', empty='zero')
        assert (zero.value, zero.num_averaged, zero.num_empty) == (0.25, 2, 1)
        with pytest.raises(ValueError, match='1 of 2 samples have no positive label, the first at 0'):
            mean_average_precision(self.scores, self.labels, by='sample', empty='error')


class TestMemory:
    """Binned average precision compares every score with every bin at once, for a result that is not even exact."""

    def test_torchmetrics_holds_every_pair_times_every_bin(self):
        functional = pytest.importorskip('torchmetrics.functional.classification')
        scores, labels = torch.rand(200, 10), torch.randint(2, (200, 10))
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profiler:
            functional.multilabel_average_precision(scores, labels, 10, thresholds=100)
        largest = max(event.cpu_memory_usage for event in profiler.events())
        assert largest >= scores.numel() * 100

    def test_ours_holds_less_than_the_scores_again(self):
        scores = np.random.default_rng(0).random((10_000, 600), dtype=np.float32)
        labels = (scores > 0.9).astype(np.int8)
        mean_average_precision(scores, labels)  # what is imported and compiled for it stays
        tracemalloc.start()
        mean_average_precision(scores, labels)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < scores.nbytes


def test_all_unknown_classes_fail_in_mmpretrain_and_are_counted_here():
    calculate = pytest.importorskip('mmpretrain.evaluation').AveragePrecision.calculate
    scores, labels = torch.rand(3, 2), torch.tensor([[1, -1], [0, -1], [0, -1]])
    with pytest.raises(IndexError):
        calculate(scores, labels.clone())
    assert mean_average_precision(scores, labels).num_empty == 1


def test_mmpretrain_changes_the_labels_of_the_caller_and_ours_does_not():
    calculate = pytest.importorskip('mmpretrain.evaluation').MultiLabelMetric.calculate
    scores, labels = torch.rand(3, 2), torch.tensor([[1, -1], [0, -1], [0, 1]])
    kept = labels.clone()
    f1_scores(scores, labels)
    average_precision(scores, labels)
    assert torch.equal(labels, kept)
    calculate(scores, labels)
    assert not torch.equal(labels, kept)
