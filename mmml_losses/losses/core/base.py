"""Base classes of all losses: arguments, unknown labels, reduction, and the link from logits to probabilities."""

import inspect
from collections.abc import Callable
from numbers import Real
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ...functional import terms
from ...functional.terms import Term, bce_negative, build_negative, build_positive
from ...hosts import versions as compat
from ...registry import MODELS
from ..links import Link, ScaledLink, SigmoidLink
from .detection import DetectionProtocol
from .inputs import check_logits, check_targets, count_known, one_hot_targets, promote
from .reduction import REDUCTIONS, Values, reduce_values, rescaling, weigh_samples, weight_matrix


class MultiLabelLoss(DetectionProtocol, nn.Module):
    """Base class of every loss: it checks inputs, leaves unknown labels out, applies weights and reduces.

    A subclass implements :meth:`values`, the unreduced loss. A subclass whose loss is a sum of separate means
    implements :meth:`parts_of` instead. A loss that only wraps a function is a :class:`FunctionLoss`.

    Args:
        reduction: ``'mean'`` over the known labels (for one value per sample: over samples with a known label),
            ``'sum'`` or ``'none'``. Two more means give all losses one scale, so that they can share a learning rate:
            ``'batchmean'`` adds over the labels and is a mean over the samples, ``'labelmean'`` is a mean over both.
            For one value per sample or class they are ``'mean'``, and ``'mean'`` divided by the labels of a sample.
        loss_weight: Factor of the loss.
        link: Map from logits to probabilities: a :class:`Link` or its config. ``None`` is the default link of the loss,
            mostly the sigmoid. A loss without a value per label then takes the link of the :class:`SumLoss` around it.
        use_sigmoid: Must be True, because every class is scored by itself. MMDetection reads it from the config.
        check_inputs: Whether every call checks that labels are valid and logits are finite. Without the checks, invalid
            input silently gives a wrong loss, and the CPU need not wait for the GPU.
        own_link: Default link, which a subclass passes; not for configs.
        compile: Whether the loss runs through :func:`torch.compile`. Compiled, it does not check its inputs.
    """

    pointwise = True
    """Whether :meth:`values` gives one value per entry, (N, C); otherwise one per sample, (N,)."""
    soft_targets = True
    """Whether the loss is defined for targets between 0 and 1."""
    leaves_out_unknown = False
    """Whether :meth:`values` of a pointwise loss is 0 at unknown labels. Where it may not be, the base sets it to 0."""
    remembers_samples = False
    """Whether the loss keeps something for every sample of the training set, by ``sample_idx``."""
    looks_across_samples = False
    """Whether :meth:`values` of a pointwise loss depends on the other samples of the call."""
    goes_by_epochs = False
    """Whether what the loss does depends on the epoch."""

    reduction: str
    loss_weight: float
    link: Link
    check_inputs: bool
    adopts_link: bool
    compiled: bool

    def __init__(
        self,
        reduction: str = 'mean',
        loss_weight: float = 1.0,
        link: Link | dict | None = None,
        use_sigmoid: bool = True,
        check_inputs: bool = True,
        own_link: Link | None = None,
        compile: bool = False,
        **unexpected,
    ):
        super().__init__()
        if unexpected:
            taken = ', '.join(each.name for each in parameters_of(type(self)))
            raise TypeError(
                f'{type(self).__name__} takes {taken}, got {", ".join(unexpected)} (if a _base_ of the config sets it '
                'for another loss, add _delete_=True)'
            )
        if not isinstance(loss_weight, Real):
            raise TypeError(f'loss_weight must be a number, got {loss_weight!r}')
        if not use_sigmoid:
            raise ValueError(
                f'use_sigmoid must be True, got {use_sigmoid!r}: {type(self).__name__} scores every class by itself'
            )
        self.use_sigmoid = use_sigmoid
        if reduction not in REDUCTIONS:
            raise ValueError(f'reduction must be one of {REDUCTIONS}, got {reduction!r}')
        self.reduction = reduction
        self.loss_weight = loss_weight
        self.check_inputs = check_inputs
        self.adopts_link = link is None and own_link is None and not self.pointwise
        self.link = build_link(link, own_link or SigmoidLink())
        self.compiled = False
        if compile:
            self.switch_compile_on()

    def switch_compile_on(self) -> None:
        """Compile the loss by :func:`torch.compile`. Copies and unpickled versions of the loss are compiled, too."""
        self.compiled = True
        self.compile(**compat.compile_settings())

    def __setstate__(self, state: dict) -> None:
        super().__setstate__(state)
        if self.compiled:  # a copy or an unpickled loss comes without its compiled code
            self.compile(**compat.compile_settings())

    def values(self, logits: Tensor, target: Tensor, **kwargs) -> Tensor:
        """Return the unreduced loss: a value per label, (N, C), or per sample, (N,), if ``pointwise`` is False.

        Args:
            logits: (N, C), float32 or float64.
            target: (N, C) of the logits' dtype; 1 positive, 0 negative, -1 unknown, or soft if ``soft_targets`` is
                True. At an unknown label a pointwise loss may return any finite value: :meth:`parts_of` sets it to 0.
            **kwargs: ``epoch`` and ``sample_idx`` if the caller knows them.
        """
        raise NotImplementedError

    def parts_of(self, logits: Tensor, target: Tensor, weight: Tensor | None, **kwargs) -> list[Values]:
        """Return a list of weighted, unreduced :class:`Values`. Each is reduced by itself; the loss is the sum.

        Args:
            logits: (N, C), float32 or float64.
            target: Labels, (N, C), see :meth:`values`.
            weight: Weights of samples, (N, 1), or of labels, (N, C); None without weights.
            **kwargs: ``epoch`` and ``sample_idx``, passed on to :meth:`values`.
        """
        if self.pointwise:
            count = count_known(target)
        else:
            count = (target >= 0).any(dim=1).sum()
            if weight is not None:
                weight, target = weigh_samples(weight, target)
        values = self.values(logits, target, **kwargs)
        if self.pointwise and not self.leaves_out_unknown and isinstance(count, Tensor):  # a plain number counts all
            values = values.masked_fill(target < 0, 0)
        return [Values(values if weight is None else values * weight, count)]

    def forward(
        self,
        cls_score: Tensor,
        target: Tensor,
        weight: Tensor | None = None,
        avg_factor: float | Tensor | None = None,
        reduction_override: str | None = None,
        **kwargs,
    ) -> Tensor:
        """Return the reduced loss, a scalar; with ``'none'`` the weighted values: per label (N, C), sample or set.

        Args:
            cls_score: Logits, (N, C). Half precision is computed in float32.
            target: (N, C) with 1 positive, 0 negative, -1 unknown, or a soft value in [0, 1]; or class indices (N,),
                where C means background and -1 unknown.
            weight: Factors of the values, of samples (N,) or of labels, (N, C) or flat (N * C,). None without weights.
            avg_factor: Divisor for any mean in place of the number of known labels or sets; an error for ``'sum'``.
            reduction_override: Replaces ``reduction`` for this call.
            **kwargs: ``epoch`` and ``sample_idx``, for the losses that use them.
        """
        logits = promote(cls_score)
        are_indices = isinstance(target, Tensor) and target.dim() == 1
        if are_indices:
            self.reject_anchors(logits, target)
        target = one_hot_targets(target, logits)
        if self.check_inputs and not torch.compiler.is_compiling():
            check_logits(logits)
            if not are_indices:  # of which only valid labels were made
                check_targets(target, self.soft_targets, type(self).__name__)
        if weight is not None:
            weight = weight_matrix(weight, target)
            if are_indices:
                target = self.leave_out_ignored(target, weight)
        parts = self.parts_of(logits, target, weight, **kwargs)
        reduction = reduction_override or self.reduction
        loss = reduce_values(parts, reduction, avg_factor)
        if reduction in ('batchmean', 'labelmean') and avg_factor is None:
            loss = loss * rescaling('mean', reduction, self.pointwise, target)
        return loss if self.loss_weight == 1 else self.loss_weight * loss

    def extra_repr(self) -> str:
        known = {**vars(self), **vars(self).get('settings', {})}
        common = inspect.signature(MultiLabelLoss.__init__).parameters
        names = [each.name for each in parameters_of(type(self)) if each.name not in common]
        return ', '.join(f'{name}={known[name]!r}' for name in names if name in known)

    @property
    def wants_training_labels(self) -> bool:
        """Whether :meth:`see_training_labels` must still be called before training. Always False here."""
        return False

    def see_training_labels(self, labels: Tensor, sample_idx: Tensor) -> None:
        """Receive the labels of the training set before training, from ``TrainingSetHook``. Do nothing here.

        Args:
            labels: (M, C) of M training images, with 1 positive, 0 negative or unobserved, -1 unknown, or soft.
            sample_idx: Index of each image, (M,). Calls of :meth:`forward` name the image by the same index.
        """

    def synchronize(self) -> None:
        """Merge the per-sample memory of all processes; ``TrainingSetHook`` calls it after epochs. Do nothing here."""

    def adopt_link(self, link: Link) -> None:
        """Use the ``link`` of the :class:`SumLoss` around this loss, unless the loss is pointwise or was given one."""
        if self.adopts_link:
            self.link = link

    def probabilities(self, cls_score: Tensor) -> Tensor:
        """Map logits to probabilities of the same shape by the link of the loss. Half precision becomes float32."""
        return self.link(promote(cls_score))

    def logit_probabilities(self, cls_score: Tensor) -> Tensor:
        """Map logits to the log-odds of :meth:`probabilities`, in the same shape. They are exact also near 0 and 1."""
        return self.link.logit_probabilities(promote(cls_score))


TERM_BUILDERS = dict(positive=build_positive, negative=build_negative)


class FunctionLoss(MultiLabelLoss):
    """Base class of the losses that wrap a function of logits, targets and settings.

    A subclass sets ``function``. The arguments of ``function`` that have a default are the settings of the loss, except
    those named in the class attribute ``inputs``, such as ``weight``, which change from call to call. The constructor
    takes the settings, with the same defaults, next to the arguments of :class:`MultiLabelLoss`, and each call passes
    them to ``function``. The settings ``positive`` and ``negative`` are terms as in :class:`PairLoss`: label costs as
    functions of the logit.
    """

    function: ClassVar[Callable[..., Any]]
    negative_term: ClassVar[Term] = bce_negative
    """Term of negative labels, for a loss without the setting ``negative``."""
    inputs: ClassVar[tuple[str, ...]] = ('weight',)
    """Arguments of the function that have a default, and that are not settings."""

    def __init_subclass__(cls, **kwargs) -> None:
        super().__init_subclass__(**kwargs)
        # Every function of ours returns 0 at unknown labels; for others, the base sets these values to 0.
        if 'function' in vars(cls):
            cls.leaves_out_unknown = cls.function.__module__.startswith(terms.__package__)
        cls.__signature__ = inspect.Signature(parameters_of(cls))

    def __init__(self, *values, **arguments):
        signature = settings_signature(type(self))
        given = {name: arguments.pop(name) for name in signature.parameters if name in arguments}
        bound = signature.bind(*values, **given)
        bound.apply_defaults()
        settings = bound.arguments
        for name, build in TERM_BUILDERS.items():
            if name in settings:
                settings[name] = build(settings[name])
        super().__init__(**{'own_link': self.own_link_of(settings), **arguments})
        self.settings = settings
        for name, value in settings.items():
            if isinstance(value, Term):  # a module as a term has its parameters in the state dict
                setattr(self, name, getattr(value, 'function', value))
        self.check_settings()

    def own_link_of(self, settings: dict[str, Any]) -> Link | None:
        """Return the default link of the loss for its settings, a dict from name to value; None for the sigmoid."""
        return None

    def check_settings(self, **inputs: Any) -> None:
        """Call ``function`` on zeros, so that bad settings raise an error. ``inputs`` are further arguments."""
        # Without the terms: that of a user may need another number of classes.
        settings = {name: value for name, value in self.settings.items() if name not in TERM_BUILDERS}
        self.function(torch.zeros(1, 2), torch.zeros(1, 2), **inputs, **settings)

    def values(self, logits: Tensor, target: Tensor, **kwargs) -> Tensor:
        return self.function(logits, target, **self.settings)

    def own_reason_against_anchors(self) -> str | None:
        if self.settings.get('negative', self.negative_term).teaches_absence:
            return None
        return 'its negative term never teaches that a class is absent, which is all that most anchors can teach'


def settings_signature(kind: type[MultiLabelLoss]) -> inspect.Signature:
    """Return a signature with the settings of a loss class and their defaults; empty if it wraps no function."""
    if not hasattr(kind, 'function'):
        return inspect.Signature()
    parameters = inspect.signature(kind.function).parameters.values()
    return inspect.Signature([p for p in parameters if p.default is not p.empty and p.name not in kind.inputs])


def parameters_of(kind: type[MultiLabelLoss]) -> list[inspect.Parameter]:
    """List a loss class's constructor parameters, positional ones first: of the class, settings, of the base class."""
    common = inspect.signature(MultiLabelLoss.__init__).parameters.values()
    own = inspect.signature(kind.__init__).parameters.values()
    settings = list(settings_signature(kind).parameters.values())
    if not any(each.kind is each.VAR_POSITIONAL for each in own):
        settings = [each.replace(kind=each.KEYWORD_ONLY) for each in settings]
    parameters = [
        *own,
        *settings,
        *(each.replace(kind=each.KEYWORD_ONLY) for each in common if each.kind is each.POSITIONAL_OR_KEYWORD),
    ]
    named: dict[str, inspect.Parameter] = {}
    for each in parameters:
        if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD) and each.name not in ('self', 'own_link'):
            named.setdefault(each.name, each)
    return sorted(named.values(), key=lambda each: each.kind)


def build_link(link: Link | dict | None, own: Link) -> Link:
    """Return ``link``, built if it is a config, or the default link ``own`` of the loss if it is None.

    A :class:`ScaledLink` without a base gets ``own`` as its base.
    """
    if link is None:
        return own
    built: object = MODELS.build(link) if isinstance(link, dict) else link
    if not isinstance(built, Link):
        raise TypeError(
            f"link must be a link of mmml_losses, its config or None ('phi' is known to FocalLoss and AsymmetricLoss), "
            f'got {built!r}'
        )
    if isinstance(built, ScaledLink):
        built.take_base(own)
    return built
