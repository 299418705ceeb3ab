"""Measure time and memory of the losses, forward and backward, relative to PyTorch's BCE with logits.

    python benchmarks/losses.py                          # 128x80, 256x9605 and 64x21841, eager and compiled
    python benchmarks/losses.py --sizes 256x9605 --rounds 15
    python benchmarks/losses.py --only AsymmetricLoss HillLoss --no-compile
    python benchmarks/losses.py --scaling                # set-wise losses: twice the batch, twice the classes

Everything runs in one process with one thread. Every round runs each loss once, in a new order, so that other load on
the machine affects all of them; the table has medians. Memory is the peak that torch allocates beyond the inputs, from
its profiler, in units of the logits.

ASL is also measured in other implementations. ``plain`` is a stable ASL of a dozen torch operations, ``published``
follows the steps of the authors' public classes, and ``timm`` and ``mmpretrain`` are measured if they are installed.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

os.environ.setdefault('KINETO_LOG_LEVEL', '5')  # read by the profiler when torch is imported

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, logsigmoid

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.tables import parse, print_table, setup
from mmml_losses.hosts import versions as compat
from mmml_losses.losses import MultiLabelLoss
from mmml_losses.registry import LOSSES

Loss = Callable[[Tensor, Tensor], Tensor]

SIZES = ('128x80', '256x9605', '64x21841')
SCALING_SIZES = ('128x2000', '256x2000', '128x4000')
POSITIVES = 5  # per sample, on average
POINTWISE = {
    'BCELoss': {},
    'LabelSmoothingBCELoss': {},
    'WANLoss': {},
    'FocalLoss': {},
    'AsymmetricLoss': {},
    'FocalMarginLoss': {},
    'MSENegativeLoss': {},
    'HillLoss': {},
    'SPALoss': {},
    'PairLoss': dict(positive='focal', negative='hill'),
    'LASLoss': {},
    'SPLCLoss': {},
    'LASDLoss': dict(expected_positives=2.9),
    'LargeLossRejection': dict(clean_rate=0.998),
    'LargeLossCorrection': dict(clean_rate=0.998),
    'EMLoss': {},
    'EPRLoss': dict(expected_positives=2.9),
    'WeightedBCELoss': dict(class_frequencies=..., num_samples=100_000),
    'ReweightedBCELoss': dict(class_frequencies=..., num_samples=100_000),
    'CBFocalLoss': dict(class_frequencies=...),
    'DBLoss': dict(class_frequencies=..., num_samples=100_000),
    'DBFocalLoss': dict(class_frequencies=..., num_samples=100_000),
    'LDAMLoss': dict(class_frequencies=...),
}
SETWISE = ('LSEPLoss', 'ZLPRLoss', 'TwoWayLoss', 'SoftmaxLoss', 'MultiSimilarityLoss', 'CircleLoss', 'DRLoss')
# Losses that remember samples or have data-dependent shapes: not compiled.
OTHERS = {
    'LabelPairRegularizer': {},
    'LargeLossCorrection, permanent': dict(type='LargeLossCorrection', permanent=True),
    'EMAPLLoss': dict(warmup_epochs=1, max_epochs=10),
    'ROLELoss': dict(num_samples=256, num_classes=..., expected_positives=2.9),
}


def published_asl(logits: Tensor, targets: Tensor) -> Tensor:
    """Compute ASL as its authors' class does: probabilities, logarithms of clamped probabilities and a power."""
    positive = logits.sigmoid()
    negative = (1 - positive + 0.05).clamp(max=1)
    loss = targets * positive.clamp(min=1e-8).log() + (1 - targets) * negative.clamp(min=1e-8).log()
    right = positive * targets + negative * (1 - targets)
    return -(loss * (1 - right).pow(4 * (1 - targets))).sum()


def published_detached_asl(logits: Tensor, targets: Tensor) -> Tensor:
    """Compute ASL as the authors' second class does: with a detached focusing weight, and in place if possible."""
    negatives = 1 - targets
    positive = logits.sigmoid()
    negative = (1.0 - positive).add_(0.05).clamp_(max=1)
    loss = targets * positive.clamp(min=1e-8).log()
    loss.add_(negatives * negative.clamp(min=1e-8).log())
    with torch.no_grad():
        weight = (1 - positive * targets - negative * negatives).pow_(4 * negatives)
    return -(loss * weight).sum()


def plain_asl(logits: Tensor, targets: Tensor) -> Tensor:
    """Compute ASL by stable operations with gradients from autograd."""
    shifted = (logits.sigmoid() - 0.05).clamp(min=torch.finfo(logits.dtype).tiny)
    return -(targets * logsigmoid(logits) + (1 - targets) * shifted.pow(4) * torch.log1p(-shifted)).sum()


def peers() -> dict[str, Loss]:
    """Return other implementations of ASL."""
    found = {
        'ASL, published': published_asl,
        'ASL, published, detached': published_detached_asl,
        'ASL, plain': plain_asl,
    }
    with suppress(ImportError):
        from timm.loss import AsymmetricLossMultiLabel

        found['ASL, timm'] = AsymmetricLossMultiLabel(gamma_neg=4, gamma_pos=0, clip=0.05)
    with suppress(ImportError):
        from mmpretrain.models.losses import AsymmetricLoss

        found['ASL, mmpretrain'] = AsymmetricLoss(gamma_pos=0.0, gamma_neg=4.0, clip=0.05, reduction='sum')
    return found


def build(name: str, settings: dict, classes: int, **kwargs) -> Loss:
    """Build a loss of the package as a function of logits and targets."""
    by_classes = dict(
        class_frequencies=[10.0 + 7 * (column % 1000) for column in range(classes)],
        num_classes=classes,
    )
    settings = {key: by_classes[key] if value is ... else value for key, value in settings.items()}
    loss: MultiLabelLoss = LOSSES.build({'type': name, **settings, **kwargs})

    def call(logits: Tensor, targets: Tensor) -> Tensor:
        if not loss.remembers_samples:
            return loss(logits, targets, epoch=1)
        sample_idx = torch.arange(len(targets))
        if loss.wants_training_labels:
            loss.see_training_labels(targets, sample_idx)
        return loss(logits, targets, epoch=1, sample_idx=sample_idx)

    return call


def make_batch(samples: int, classes: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(samples, classes, generator=generator) - 2
    targets = (torch.rand(samples, classes, generator=generator) < POSITIVES / classes).float()
    return logits.requires_grad_(), targets


def step(loss: Loss, logits: Tensor, targets: Tensor) -> None:
    logits.grad = None
    loss(logits, targets).backward()


def measure_times(losses: dict[str, Loss], logits: Tensor, targets: Tensor, rounds: int) -> dict[str, float]:
    """Return the median seconds of a step. A round repeats small batches, which are too short for the clock."""
    repeats = min(20, max(1, 200_000 // logits.numel()))
    for loss in losses.values():
        for _ in range(3):
            step(loss, logits, targets)
    times: dict[str, list[float]] = {name: [] for name in losses}
    order = list(losses)
    for _ in range(rounds):
        random.shuffle(order)
        for name in order:
            start = time.perf_counter()
            for _ in range(repeats):
                step(losses[name], logits, targets)
            times[name].append((time.perf_counter() - start) / repeats)
    return {name: statistics.median(values) for name, values in times.items()}


def measure_memory(loss: Loss, logits: Tensor, targets: Tensor) -> int:
    """Return the peak number of bytes that a step holds."""
    step(loss, logits, targets)
    logits.grad = None
    gc.collect()
    with torch.profiler.profile(profile_memory=True, activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        loss(logits, targets).backward()
    held = most = 0
    for change in allocations(profiler):
        held += change
        most = max(most, held)
    return most


def allocations(profiler: torch.profiler.profile) -> list[int]:
    """Return the bytes allocated (positive) and freed (negative), in the order of time."""
    changes = []
    pending = list(profiler.profiler.kineto_results.experimental_event_tree())
    while pending:
        event = pending.pop()
        pending += event.children
        kind, details = event.typed
        if kind == torch._C._profiler._EventType.Allocation:
            changes.append((event.start_time_ns, details.alloc_size))
    return [size for _, size in sorted(changes, key=lambda change: change[0])]


def compare(size: str, options: argparse.Namespace) -> None:
    """Measure the losses at one size and print the table."""
    samples, classes = parse(size)
    logits, targets = make_batch(samples, classes)
    chosen = {**POINTWISE, **{name: {} for name in SETWISE}, **OTHERS}
    chosen = {name: settings for name, settings in chosen.items() if not options.only or name in options.only}
    reference = 'torch BCE with logits'
    losses = {reference: binary_cross_entropy_with_logits, **peers()}
    losses |= {name: build(name, settings, classes) for name, settings in chosen.items()}
    compiled = {}
    if options.compile:
        torch.compiler.reset()  # otherwise the next size is compiled with dynamic shapes
        if not compat.compile_settings():
            torch._dynamo.config.recompile_limit = 256  # all losses compile the same method
        compiled['ASL, plain'] = torch.compile(plain_asl)
        for name, settings in chosen.items():
            if name not in OTHERS:
                compiled[name] = build(name, settings, classes, compile=True)
    every = {**losses, **{f'{name} compiled': loss for name, loss in compiled.items()}}
    times = measure_times(every, logits, targets, options.rounds)
    memory = {name: measure_memory(loss, logits, targets) for name, loss in losses.items()}
    unit = logits.numel() * logits.element_size()
    rows = [
        (
            name,
            f'{times[name] / times[reference]:.2f}',
            f'{times[f"{name} compiled"] / times[reference]:.2f}' if name in compiled else '',
            f'{memory[name] / unit:.1f}',
        )
        for name in losses
    ]
    title = f'{size}: {reference} takes {1e3 * times[reference]:.3f} ms'
    print_table(title, ('loss', 'eager', 'compiled', 'memory'), rows)


def scale(options: argparse.Namespace) -> None:
    """Print how the times of the set-wise losses grow with the batch size and the number of classes."""
    ways = {f'{name}, {way}': dict(type=name, way=way) for name in SETWISE for way in ('sample', 'class', 'joint')}
    times = {}
    for size in SCALING_SIZES:
        losses = {name: LOSSES.build(config) for name, config in ways.items()}
        times[size] = measure_times(losses, *make_batch(*parse(size)), options.rounds)
    first, *others = SCALING_SIZES
    rows = [
        (
            name,
            f'{1e3 * times[first][name]:.1f} ms',
            *(f'{times[size][name] / times[first][name]:.2f}' for size in others),
        )
        for name in ways
    ]
    print_table('Set-wise losses, twice as much data', ('loss', first, *others), rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--sizes', nargs='+', default=SIZES, metavar='NxC', help='samples x classes')
    parser.add_argument('--rounds', type=int, default=21, help='timed rounds')
    parser.add_argument('--only', nargs='+', metavar='LOSS', help='registered names; all by default')
    parser.add_argument('--no-compile', dest='compile', action='store_false', help='leave torch.compile out')
    parser.add_argument('--scaling', action='store_true', help='instead: how set-wise losses grow')
    options = parser.parse_args()
    torch.set_num_threads(1)
    random.seed(0)
    print(f'{setup("torch")}, one thread, medians of {options.rounds} rounds')
    if options.scaling:
        scale(options)
    else:
        for size in options.sizes:
            compare(size, options)


if __name__ == '__main__':
    main()
