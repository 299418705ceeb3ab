"""Test that the benchmarks of the losses run, count memory correctly, and confirm the docs on memory."""

import sys

import pytest
import torch

from benchmarks import detection
from benchmarks import losses as benchmark
from mmml_losses.functional import pair
from mmml_losses.losses import AsymmetricLoss


def test_the_script_prints_a_row_for_each_loss(capsys, monkeypatch):
    monkeypatch.setattr(sys, 'argv', ['losses.py', '--sizes', '8x12', '--rounds', '1', '--no-compile'])
    benchmark.main()
    printed = capsys.readouterr().out
    assert '8x12: torch BCE with logits takes' in printed
    for name in (*benchmark.POINTWISE, *benchmark.SETWISE, *benchmark.OTHERS, *benchmark.peers()):
        assert f'| {name} ' in printed


def test_growth_is_printed_for_each_way(capsys, monkeypatch):
    monkeypatch.setattr(sys, 'argv', ['losses.py', '--scaling', '--rounds', '1'])
    monkeypatch.setattr(benchmark, 'SCALING_SIZES', ('4x6', '8x6'))
    benchmark.main()
    printed = capsys.readouterr().out
    for name in benchmark.SETWISE:
        assert all(f'| {name}, {way} ' in printed for way in ('sample', 'class', 'joint'))


def test_peers_compute_asl():
    logits, targets = benchmark.make_batch(16, 20)
    expected = AsymmetricLoss(reduction='sum')(logits, targets)
    found = benchmark.peers()
    assert set(found) >= {'ASL, published', 'ASL, published, detached', 'ASL, plain', 'ASL, mmpretrain', 'ASL, timm'}
    for loss in found.values():
        torch.testing.assert_close(loss(logits, targets), expected, rtol=1e-4, atol=1e-4)


def test_memory_is_the_most_that_is_held_at_a_time():
    logits = torch.randn(100, 1000, requires_grad=True)
    unit = logits.numel() * logits.element_size()

    def three_at_once(logits, targets):
        return (logits.exp() * 2.0).sum()  # the exponential stays; backward adds twos and their product

    assert benchmark.measure_memory(three_at_once, logits, logits) / unit == pytest.approx(3, abs=0.01)


# These losses derive tensors from the batch before the pair, which take as much memory in both cases.
ABOVE_HALF = {'LargeLossRejection', 'LargeLossCorrection', 'EPRLoss', 'DBLoss', 'LDAMLoss'}


@pytest.mark.parametrize('size', [(128, 80), (64, 4000)], ids=['128x80', '64x4000'])
@pytest.mark.parametrize('name', sorted(benchmark.POINTWISE.keys() - ABOVE_HALF))
def test_losses_need_half_the_memory_of_their_plain_composition(name, size, monkeypatch):
    logits, targets = benchmark.make_batch(*size)
    settings = benchmark.POINTWISE[name]
    loss = benchmark.build(name, settings, size[1])
    needed = benchmark.measure_memory(loss, logits, targets)
    monkeypatch.setattr(pair, 'have_slopes', lambda *terms: False)  # every pair is composed of plain operations
    plain = benchmark.measure_memory(loss, logits, targets)
    # Both hold the class frequencies and vectors computed from them.
    class_vectors = 8 * size[1] * logits.element_size() if 'class_frequencies' in settings else 0
    assert needed <= plain / 2 + class_vectors


@pytest.mark.needs_mmdet
def test_a_detectors_step_is_timed_with_each_loss(capsys, monkeypatch):
    monkeypatch.setattr(sys, 'argv', ['detection.py', '--size', '64', '--rounds', '1'])
    detection.main()
    printed = capsys.readouterr().out
    for name in ('mmdet FocalLoss', *detection.OURS):
        assert f'| {name} ' in printed
