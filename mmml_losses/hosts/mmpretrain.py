"""Patch the methods of MMPretrain in the table ``PATCHES``, without importing MMPretrain.

MMPretrain 1.0 to 1.3 is silently wrong for unknown labels (-1), several views of an image, ``gt_score`` in only some
samples of a batch, and losses whose link (map from logits to probabilities) is not the sigmoid. A patch corrects such a
case or raises an error. Importing ``mmml_losses`` patches imported modules at once, others after their import.
"""

import sys
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import NamedTuple

from torch import Tensor


class Patch(NamedTuple):
    """Entry of ``PATCHES``: a method of MMPretrain and its replacement.

    Args:
        module: Full name of the module that defines the class.
        owner: Name of the class.
        method: Name of the method.
        wrap: Function that takes the old method and returns the new one.
    """

    module: str
    owner: str
    method: str
    wrap: Callable[[Callable], Callable]


def has_link(loss: object) -> bool:
    """Return True if a loss defines its map from logits to probabilities (link), as only losses of this package do."""
    return hasattr(loss, 'logit_probabilities')


def reject_unknown_labels(loss: object, targets: Iterable[Tensor]) -> None:
    """Raise a ValueError if one of the targets has unknown labels (-1) and the loss is not from this package."""
    if not has_link(loss) and any((target < 0).any() for target in targets):
        raise ValueError(
            f'{type(loss).__name__} does not know unknown labels (-1): use a loss of mmml_losses, or a dataset without '
            'them'
        )


def _predict_through_link(get_predictions: Callable) -> Callable:
    @wraps(get_predictions)
    def predict(self, cls_score, data_samples):
        if has_link(self.loss_module):
            # The head then takes the sigmoid, which turns log-odds into the probabilities of the link.
            cls_score = self.loss_module.logit_probabilities(cls_score)
        return get_predictions(self, cls_score, data_samples)

    return predict


def _check_labels(get_loss: Callable) -> Callable:
    @wraps(get_loss)
    def check(self, cls_score, data_samples, **kwargs):
        reject_unknown_labels(self.loss_module, (each.gt_score for each in data_samples if 'gt_score' in each))
        return get_loss(self, cls_score, data_samples, **kwargs)

    return check


def _check_batch(forward: Callable) -> Callable:
    @wraps(forward)
    def check(self, data: dict, training: bool = False) -> dict:
        samples = data.get('data_samples')
        if samples is not None and len(samples) and not getattr(self, 'takes_views', False):
            problem = None
            if 'num_views' in samples[0]:
                problem = 'several views of an image'
            # MMPretrain looks at the first sample alone, then expects scores in all, or overwrites those of the others.
            elif len({'gt_score' in sample for sample in samples}) > 1:
                problem = 'batches in which only some samples have gt_score'
            if problem is not None:
                raise ValueError(
                    f"data_preprocessor must be of type 'mmml_losses.MultiLabelPreprocessor' for {problem}, got "
                    f'{type(self).__name__}'
                )
        return forward(self, data, training)

    return check


def _check_blending(call: Callable) -> Callable:
    @wraps(call)
    def check(self, batch_input: Tensor, batch_score: Tensor) -> tuple[Tensor, Tensor]:
        blending = [type(each).__name__ for each in self.augments if each and not getattr(each, 'unites_labels', False)]
        if blending and (batch_score < 0).any():
            raise ValueError(
                f'batch_augments must be mmml_losses.UnionMixup or mmml_losses.UnionMosaic for unknown labels (-1), '
                f'got {", ".join(blending)}, which would blend -1 with other labels'
            )
        return call(self, batch_input, batch_score)

    return check


PATCHES = (
    # The multi-label heads take the sigmoid of the logits, which is wrong for every other link.
    Patch('mmpretrain.models.heads', 'MultiLabelClsHead', '_get_predictions', _predict_through_link),
    # MMPretrain's own losses compute with -1 as a target, and fall without bound.
    Patch('mmpretrain.models.heads', 'MultiLabelClsHead', '_get_loss', _check_labels),
    # The preprocessor treats views as images: it does not normalise their colours, or mistakes colours for samples.
    Patch('mmpretrain.models.utils.data_preprocessor', 'ClsDataPreprocessor', 'forward', _check_batch),
    # Mixup, CutMix and ResizeMix average labels. A weighted mean of 1 and -1, such as 0.4 or 0, looks like a label.
    Patch('mmpretrain.models.utils.batch_augments', 'RandomBatchAugment', '__call__', _check_blending),
)


def apply() -> None:
    """Patch imported modules of MMPretrain now, others right after their import. A second call changes nothing."""
    if not any(isinstance(finder, _PatchingFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _PatchingFinder())
    for name in {patch.module for patch in PATCHES} & set(sys.modules):
        _patch(sys.modules[name])


def _patch(module: ModuleType) -> None:
    for patch in PATCHES:
        if patch.module == module.__name__:
            owner = getattr(module, patch.owner)
            method = getattr(owner, patch.method)
            if not hasattr(method, 'patched_by_mmml_losses'):
                method = patch.wrap(method)
                method.patched_by_mmml_losses = True  # type: ignore[attr-defined]
                setattr(owner, patch.method, method)


class _PatchingFinder(MetaPathFinder):
    """Import hook for ``sys.meta_path`` that patches each module of ``PATCHES`` right after Python has run it."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if all(fullname != patch.module for patch in PATCHES):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_patch(module: ModuleType) -> None:
                execute(module)
                _patch(module)

            spec.loader.exec_module = execute_and_patch  # type: ignore[method-assign]
        return spec
