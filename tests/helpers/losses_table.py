"""Table of all registered losses, with variants that take other paths through the code."""

import torch
from torch import Tensor

from mmml_losses.losses import MultiLabelLoss
from mmml_losses.losses.core.inputs import one_hot_targets
from mmml_losses.registry import LOSSES

SAMPLES_KNOWN = 64  # size of the training set, for losses that need it
FREQUENT = dict(class_frequencies='by_class', num_samples=1000)
ESTIMATED = dict(expected_positives=1.5)

TABLE: dict[str, dict] = {
    'bce': dict(type='BCELoss'),
    'label_smoothing': dict(type='LabelSmoothingBCELoss'),
    'label_smoothing_paper': dict(type='LabelSmoothingBCELoss', reading='paper'),
    'wan': dict(type='WANLoss'),
    'focal': dict(type='FocalLoss'),
    'focal_alpha': dict(type='FocalLoss', alpha=0.25),
    'focal_asymmetric': dict(type='FocalLoss', gamma_positive=1.0, gamma_negative=3.0, link='phi'),
    'focal_detached': dict(type='FocalLoss', detach_weight=True),
    'asl': dict(type='AsymmetricLoss'),
    'asl_detached': dict(type='AsymmetricLoss', gamma_positive=1, detach_weight=True),
    'asl_without_margin': dict(type='AsymmetricLoss', margin=0.0, gamma_positive=1),
    'asl_fractional': dict(type='AsymmetricLoss', gamma_positive=0.5, gamma_negative=0.5),
    'asl_unfocused': dict(type='AsymmetricLoss', gamma_positive=0, gamma_negative=0),
    'focal_margin': dict(type='FocalMarginLoss'),
    'mse_negative': dict(type='MSENegativeLoss'),
    'hill': dict(type='HillLoss'),
    'spa': dict(type='SPALoss'),
    'spa_far_shifts': dict(type='SPALoss', positive_shift=5.0, negative_shift=-5.0, negative_slope=0.5),
    'pair': dict(type='PairLoss', positive='focal', negative=dict(type='bce', weight=0.5)),
    'pair_entropy': dict(type='PairLoss', positive=dict(type='asymmetric', gamma=1.0), negative='entropy'),
    'las': dict(type='LASLoss'),
    'splc': dict(type='SPLCLoss'),
    'splc_equation': dict(type='SPLCLoss', margin_for_pseudo=True),
    'splc_asl': dict(type='SPLCLoss', positive='bce', negative='asymmetric'),
    'lasd': dict(type='LASDLoss', **ESTIMATED),
    'lasd_estimated': dict(type='LASDLoss', threshold=0.8),
    'll_r': dict(type='LargeLossRejection', clean_rate=0.8),
    'll_ct': dict(type='LargeLossCorrection', clean_rate=0.8),
    'll_cp': dict(type='LargeLossCorrection', permanent=True, relative_increase=0.1),
    'em': dict(type='EMLoss'),
    'em_apl': dict(type='EMAPLLoss', warmup_epochs=1, max_epochs=10),
    'epr': dict(type='EPRLoss', **ESTIMATED),
    'role': dict(type='ROLELoss', num_samples=SAMPLES_KNOWN, num_classes='by_class', **ESTIMATED),
    'lsep': dict(type='LSEPLoss'),
    'c_lsep': dict(type='LSEPLoss', way='class', gamma=5.0),
    'lsep_both': dict(type='LSEPLoss', way='both'),
    'zlpr': dict(type='ZLPRLoss'),
    'c_zlpr': dict(type='ZLPRLoss', way='class', bucket_size=4),
    'two_way': dict(type='TwoWayLoss'),
    'two_way_buckets': dict(type='TwoWayLoss', bucket_size=4, logit_bias=2.0),
    'two_way_joint': dict(type='TwoWayLoss', way='joint'),
    'softmax': dict(type='SoftmaxLoss'),
    'softmax_both': dict(type='SoftmaxLoss', way='both'),
    'multi_similarity': dict(type='MultiSimilarityLoss'),
    'circle': dict(type='CircleLoss'),
    'dr': dict(type='DRLoss'),
    'dr_both': dict(type='DRLoss', constraint='both'),
    'dr_positive': dict(type='DRLoss', constraint='positive'),
    'weighted_bce': dict(type='WeightedBCELoss', **FREQUENT),
    'rw': dict(type='ReweightedBCELoss', **FREQUENT),
    'rw_inverse': dict(type='ReweightedBCELoss', mode='inverse', **FREQUENT),
    'cb_focal': dict(type='CBFocalLoss', **FREQUENT),
    'cb_focal_average_w': dict(type='CBFocalLoss', mode='average_w', **FREQUENT),
    'cb_focal_average_n': dict(type='CBFocalLoss', mode='average_n', **FREQUENT),
    'cb_focal_min_n': dict(type='CBFocalLoss', mode='min_n', **FREQUENT),
    'db': dict(type='DBLoss', **FREQUENT),
    'db_focal': dict(type='DBFocalLoss', **FREQUENT),
    'ldam': dict(type='LDAMLoss', **FREQUENT),
    'lpr': dict(type='LabelPairRegularizer'),
    'lpr_on_spa': dict(type='LabelPairRegularizer', link=dict(type='SPALink')),
    'expected_positives': dict(type='ExpectedPositiveRegularizer', **ESTIMATED),
    'consistency': dict(type='ConsistencyRegularizer'),
    'spa_lpr': dict(
        type='SumLoss', losses=dict(spa=dict(type='SPALoss'), lpr=dict(type='LabelPairRegularizer', loss_weight=0.5))
    ),
    'bce_c_lsep': dict(
        type='SumLoss', losses=dict(bce=dict(type='BCELoss'), lsep=dict(type='LSEPLoss', way='class', gamma=1.0))
    ),
}
SUMS = [name for name, config in TABLE.items() if config['type'] == 'SumLoss']
REMEMBERING = ['ll_cp', 'em_apl', 'role']
STATEFUL = [*REMEMBERING, 'lasd_estimated']
# A constant of these losses depends on the number of all classes; ROLE draws random numbers for each class.
COUNTING_CLASSES = ['wan', 'las', 'lasd', 'lasd_estimated', 'weighted_bce', 'role']


def config_of(name: str, classes: int) -> dict:
    config = dict(TABLE[name])
    if config.get('class_frequencies') == 'by_class':
        config['class_frequencies'] = [5.0 * 2 ** (column % 6) for column in range(classes)]
    if config.get('num_classes') == 'by_class':
        config['num_classes'] = classes
    return config


def build(name: str, classes: int = 5, labels: Tensor | None = None, **kwargs) -> MultiLabelLoss:
    """Build a loss and prepare it for its first call in a training on these labels."""
    loss = LOSSES.build({**config_of(name, classes), **kwargs})
    if loss.wants_training_labels:
        training_labels = torch.zeros(SAMPLES_KNOWN, classes)
        if labels is not None:
            training_labels[: len(labels)] = labels
        loss.see_training_labels(training_labels, torch.arange(SAMPLES_KNOWN))
    return loss


def context(logits: Tensor) -> dict:
    """Return what a training passes to a loss: the epoch, the indices of the samples, and other views of them."""
    views = (logits.detach().flip(0), 0.5 * logits.detach())
    return dict(epoch=2, sample_idx=torch.arange(len(logits)), views=views)


def evaluate(name: str, logits: Tensor, targets: Tensor, *args, **kwargs) -> Tensor:
    """Build a loss of the table with ``loss_arguments`` and evaluate it on a batch."""
    kwargs = {**context(logits), **kwargs}
    labels = None
    if targets.shape in (logits.shape, logits.shape[:1]) and targets.isfinite().all():
        rows = one_hot_targets(targets, logits.detach().double())
        labels = torch.zeros_like(rows).index_copy(0, kwargs['sample_idx'], rows)
    loss = build(name, logits.size(1), labels, **kwargs.pop('loss_arguments', {}))
    return loss(logits, targets, *args, **kwargs)


def example(samples: int = 6, classes: int = 5, seed: int = 0, dtype=torch.float64) -> tuple[Tensor, Tensor]:
    """Return logits and hard labels, with an empty row and a full row of labels."""
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(samples, classes, generator=generator, dtype=dtype)
    targets = (torch.rand(samples, classes, generator=generator) < 0.4).to(dtype)
    targets[0], targets[1] = 0, 1
    return logits.requires_grad_(), targets


def gradient(loss: Tensor, logits: Tensor) -> Tensor:
    return torch.autograd.grad(loss, logits)[0]


def is_pointwise(name: str) -> bool:
    return name not in SUMS and build(name).pointwise
