"""Patch MMPretrain by one table, without importing it.

MMPretrain 1.0 to 1.3 is silently wrong for losses whose link is not the sigmoid, for unknown labels (-1), and for
several views of an image. Importing ``mmml_losses`` patches the classes of the table at once if MMPretrain is imported,
and right after its import otherwise. Without parts of this package, a patched method does the same as before.
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
    """A method of MMPretrain to replace.

    Args:
        module: Module whose import defines the class.
        owner: Name of the class.
        method: Name of the method.
        wrap: Returns the new method for the old one.
    """

    module: str
    owner: str
    method: str
    wrap: Callable[[Callable], Callable]


def has_link(loss: object) -> bool:
    """Check whether a loss has a link, as all losses of this package have and no loss of another project has."""
    return hasattr(loss, 'logit_probabilities')


def reject_unknown_labels(loss: object, targets: Iterable[Tensor]) -> None:
    """Raise a ValueError if targets have unknown labels (-1) and the loss is not one of this package."""
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
            # It checks the first sample alone, and then expects scores in all, or overwrites the scores of the others.
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
    """Patch the imported modules of MMPretrain, and the others after their import. Calling it again changes nothing."""
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
    """Find the modules of the table as Python does, and patch each at the end of its import."""

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
