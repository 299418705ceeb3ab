"""Class frequencies of a loss, from a list, a json file, the training set or a checkpoint."""

import logging
import math
from collections.abc import Sequence
from numbers import Real
from pathlib import Path

import numpy as np
import torch
from mmengine.logging import print_log
from torch import Tensor, nn

from ...utils.frequencies import checked_frequencies, read_class_frequencies

THREE_WAYS = (
    'give class_frequencies as a list (with num_samples), as a json file '
    '({"class_frequencies": [...], "num_samples": ...}), or add dict(type=\'mmml_losses.TrainingSetHook\') to '
    'custom_hooks, which counts them in the training set'
)


class ClassFrequencies(nn.Module):
    """Numbers of training images: ``counts`` (C,) of those that have each class, and ``num_samples`` of all.

    If labels are unknown, ``known_labels`` (C,) is the number of images whose label of each class is known.

    All are buffers. A checkpoint saves them, so that testing a trained model needs neither counts in the config nor a
    hook. Numbers from the config or the training set replace those of a checkpoint, because fine-tuning changes the
    training set; if the numbers differ, a warning is logged. In a model of half precision, both stay in float32.

    Args:
        class_frequencies: A list of counts; or the path of a json file with such a list, or with
            ``{"class_frequencies": [...], "num_samples": ...}`` (or ``class_freq``). The file may also have
            ``known_labels``, a list. None to count them in the training set (:meth:`count`) or to load them from a
            checkpoint.
        num_samples: Number of training images; not needed if the file has it.
        needs_num_samples: Whether counts without ``num_samples``, in the file or as an argument, are an error.
    """

    counts: Tensor
    num_samples: Tensor
    known_labels: Tensor

    def __init__(
        self,
        class_frequencies: Sequence[float] | str | Path | None = None,
        num_samples: float | None = None,
        needs_num_samples: bool = True,
    ):
        super().__init__()
        self.register_buffer('counts', torch.zeros(0))
        self.register_buffer('num_samples', torch.zeros(()))  # 0 while it is not known
        self.register_buffer('known_labels', torch.zeros(0))  # empty where no label is unknown
        self.needs_num_samples = needs_num_samples
        self.source: str | None = None
        """``'config'``, ``'training set'``, ``'checkpoint'``, or None while they are not known."""
        if class_frequencies is None:
            if num_samples is not None:
                raise ValueError(f'num_samples must come with class_frequencies, got {num_samples} alone')
            return
        counts: Sequence[float] | np.ndarray
        known_labels = None
        if isinstance(class_frequencies, (str, Path)):
            counts, num_samples, known_labels = load_counts(class_frequencies, num_samples)
        else:
            counts = class_frequencies
        if num_samples is None and needs_num_samples:
            raise ValueError('num_samples, the number of training images, must come with class_frequencies, got None')
        self._set(counts, num_samples, known_labels, source='config')

    @property
    def known(self) -> bool:
        """Whether the counts are known: from the config, the training set or a checkpoint."""
        return self.counts.numel() > 0

    @property
    def wants_training_labels(self) -> bool:
        """Whether :meth:`count` should still be called: neither the config nor the training set has given counts.

        Counts from a checkpoint are not enough, because they may come from another training set.
        """
        return self.source in (None, 'checkpoint')

    def count(self, labels: Tensor) -> None:
        """Set ``counts`` to the number of positives of each class, ``num_samples`` to M, and set ``known_labels``.

        Args:
            labels: (M, C) of M images, with 1 positive, 0 negative, -1 unknown (not counted), or soft: 0.3 adds 0.3.
        """
        if labels.dim() != 2:
            raise ValueError(f'labels must be of shape (M, C), got {tuple(labels.shape)}')
        before = self._state() if self.source == 'checkpoint' else None
        counts = labels.clamp(min=0).sum(dim=0, dtype=torch.float64)
        self._set(counts, len(labels), (labels >= 0).sum(dim=0), source='training set')
        if before is not None:
            self._warn_if_other(*before)

    def forward(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Return (counts (C,), scalar num_samples, 0 if unknown) in ``logits``' dtype; ValueError without C counts."""
        if not self.known:
            raise ValueError(f'class frequencies are not known yet: {THREE_WAYS}')
        if self.counts.numel() != logits.size(1):
            raise ValueError(
                f'class_frequencies must have one count for each of the {logits.size(1)} classes of cls_score, '
                f'got {self.counts.numel()} (from the {self.source})'
            )
        return self.counts.to(logits), self.num_samples.to(logits)

    def known_samples(self, logits: Tensor) -> Tensor:
        """Return the number of images whose label is known, (C,); the scalar ``num_samples`` if all labels are."""
        return (self.known_labels if self.known_labels.numel() else self.num_samples).to(logits)

    def extra_repr(self) -> str:
        if not self.known:
            return 'not known yet'
        images = f'{self.num_samples.item():g} images' if self.num_samples else 'unknown number of images'
        return f'{self.counts.numel()} classes, {images}, from the {self.source}'

    def _state(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.counts, self.num_samples, self.known_labels

    def _set(
        self,
        counts: Sequence[float] | np.ndarray | Tensor,
        num_samples: float | None,
        known_labels: Sequence[float] | Tensor | None,
        source: str,
    ) -> None:
        counts, num_samples = check_class_frequencies(counts, num_samples)
        known = check_known_labels(known_labels, counts, num_samples)
        # New tensors: the old ones may have another length, and EMA or DDP may refer to them.
        self.counts = counts.to(self.counts)
        self.num_samples = self.num_samples.new_tensor(num_samples or 0)
        self.known_labels = known.to(self.known_labels)
        self.source = source

    def _warn_if_other(self, counts: Tensor, num_samples: Tensor, known_labels: Tensor) -> None:
        """Log a warning if the numbers of a checkpoint differ from the numbers in use."""
        same = torch.equal(counts.to(self.counts), self.counts)
        same = same and torch.equal(known_labels.to(self.known_labels), self.known_labels)
        if same and (num_samples == 0 or self.num_samples == 0 or num_samples.to(self.num_samples) == self.num_samples):
            return
        print_log(
            f'The class frequencies of the {self.source} are used; the checkpoint was trained with others '
            f'({counts.numel()} classes, {num_samples.item():g} images).',
            logger='current',
            level=logging.WARNING,
        )

    def _apply(self, *args, **kwargs) -> nn.Module:
        # Counts above 65504 are infinite in float16, and bfloat16 rounds them: follow the device alone.
        exact = self._state()
        super()._apply(*args, **kwargs)
        self.counts, self.num_samples, self.known_labels = (
            after if after.dtype == before.dtype else before.to(after.device)
            for before, after in zip(exact, self._state(), strict=True)
        )
        return self

    def _load_from_state_dict(
        self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
    ) -> None:
        """Load counts of any length from a checkpoint; keep those of config or training set, warn if they differ."""
        keys = [f'{prefix}counts', f'{prefix}num_samples']
        if not all(key in state_dict for key in keys):
            if strict and not self.known:
                missing_keys.extend(key for key in keys if key not in state_dict)
            return
        counts, num_samples = (state_dict[key] for key in keys)
        known_labels = state_dict.get(f'{prefix}known_labels', counts.new_zeros(0))  # older checkpoints lack it
        if not counts.numel():
            return
        if self.source in (None, 'checkpoint'):
            self.counts = counts.detach().to(self.counts, copy=True)
            self.num_samples = num_samples.detach().to(self.num_samples, copy=True)
            self.known_labels = known_labels.detach().to(self.known_labels, copy=True)
            self.source = 'checkpoint'
        else:
            self._warn_if_other(counts, num_samples, known_labels)


def load_counts(path: str | Path, num_samples: float | None) -> tuple[np.ndarray, float | None, list | None]:
    """Return (counts, number of images, known labels) of a json file; None for what is missing.

    ``num_samples`` is the number of images if the file has none.
    Raise a ValueError if the file cannot be read, or if file and argument have different numbers of images.
    """
    try:
        counts, in_file, known_labels = read_class_frequencies(path)
    except OSError as error:
        raise ValueError(f"class_frequencies must be a readable file, got '{path}': {error.strerror}") from None
    if None not in (in_file, num_samples) and in_file != num_samples:
        raise ValueError(f"num_samples must be {in_file}, as in '{path}', or left out, got {num_samples}")
    return counts, num_samples if in_file is None else in_file, known_labels


def check_class_frequencies(
    counts: Sequence[float] | np.ndarray | Tensor, num_samples: float | None
) -> tuple[Tensor, float | None]:
    """Return (counts (C,) float64, num_samples). Counts below 0, above num_samples or all 0 raise a ValueError."""
    counts = torch.as_tensor(checked_frequencies(counts), dtype=torch.float64)
    if not counts.numel():
        raise ValueError('class_frequencies must be one number for each class, got none')
    if not counts.any():
        raise ValueError(f'class_frequencies must not all be 0, as for these {len(counts)} classes')
    if num_samples is None:
        return counts, None
    if not isinstance(num_samples, Real) or not 0 < num_samples < math.inf:
        raise ValueError(f'num_samples must be a number above 0, got {num_samples!r}')
    if counts.amax() > num_samples:
        number = counts.argmax().item()
        raise ValueError(
            f'class_frequencies must be at most num_samples, {num_samples:g}: they count images that have the class, '
            f'got {counts[number].item():g} for class {number}'
        )
    return counts, num_samples


def check_known_labels(
    known_labels: Sequence[float] | Tensor | None, counts: Tensor, num_samples: float | None
) -> Tensor:
    """Return the known labels of each class, (C,) float64; empty if None or if all of ``num_samples`` are known.

    A number below that of ``counts`` (C,), above ``num_samples`` or without it, or for other classes, is a ValueError.
    """
    if known_labels is None:
        return torch.zeros(0)
    known = torch.as_tensor(known_labels, dtype=torch.float64)
    most = -1.0 if num_samples is None else num_samples
    if known.shape != counts.shape or not ((known >= counts) & (known <= most)).all():
        raise ValueError(
            'known_labels must be, for each class of class_frequencies, a number of images from its frequency to '
            f'num_samples, got {known.tolist()}'
        )
    return known if (known < most).any() else torch.zeros(0)
