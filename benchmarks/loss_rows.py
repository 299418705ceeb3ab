"""Rows of the experiments: every loss with the hyper-parameters of its paper, by its name in the tables."""

from __future__ import annotations

from typing import NamedTuple

import torch

from mmml_losses.losses import MultiLabelLoss
from mmml_losses.registry import LOSSES


class PaperValues(NamedTuple):
    """Hyper-parameters that a paper gives for each dataset.

    Args:
        lasd: Leverage and threshold of LASD (its Table 4).
        dr: Scale of the gradient constraint of DR (its section 4.3).
        db: Place of the step and scale of the negatives of DB (its section 4.2).
    """

    lasd: dict
    dr: dict
    db: dict


COCO = PaperValues(
    lasd=dict(positive_leverage=0.03, threshold=0.9),
    dr=dict(constraint_scale=10.0),
    db=dict(mu=0.2, negative_scale=2.0),
)
VOC = PaperValues(
    lasd=dict(positive_leverage=0.1, threshold=0.9), dr=dict(constraint_scale=7.0), db=dict(mu=0.3, negative_scale=5.0)
)


class TrainingFacts(NamedTuple):
    """Facts about the training set and the training that some losses need.

    Args:
        num_samples: Number of images.
        num_classes: Number of classes.
        expected_positives: Mean number of labels per image, counted in the full labels as in the papers.
        max_epochs: Number of epochs.
    """

    num_samples: int
    num_classes: int
    expected_positives: float
    max_epochs: int


# Rows that the DR paper trains with class-aware sampling on long-tailed data. The first is BCE with that sampling.
RESAMPLED = ('BCE + RS', 'LSEP', 'C-LSEP', 'ZLPR', 'C-ZLPR', 'Circle', 'DB', 'DB-Focal', 'DR', 'DR + DB-Focal')


def loss_rows(facts: TrainingFacts, values: PaperValues) -> dict[str, dict]:
    """Return the configs of the losses by row."""
    expected = dict(expected_positives=facts.expected_positives)
    lpr = dict(type='LabelPairRegularizer')
    dr = dict(type='DRLoss', **values.dr)
    db_focal = dict(type='DBFocalLoss', **values.db)
    return {
        'BCE': dict(type='BCELoss'),
        'Weighted BCE': dict(type='WeightedBCELoss'),
        'BCE-LS': dict(type='LabelSmoothingBCELoss'),
        'WAN': dict(type='WANLoss'),
        'Focal': dict(type='FocalLoss'),
        'ASL': dict(type='AsymmetricLoss'),  # with the gradient of its formula, --loss asl_gradient
        'SPA': dict(type='SPALoss'),
        'SPA + LPR': dict(type='SumLoss', losses=dict(spa=dict(type='SPALoss'), lpr=lpr)),
        'BCE + LPR': dict(type='SumLoss', losses=dict(bce=dict(type='BCELoss'), lpr=lpr)),
        'Two-way': dict(type='TwoWayLoss'),
        'Softmax': dict(type='SoftmaxLoss'),
        'Multi-similarity': dict(type='MultiSimilarityLoss', positive_temperature=4.0),
        'Focal margin+': dict(type='PairLoss', positive='focal_margin', negative='bce'),
        'Focal margin': dict(type='FocalMarginLoss'),
        'MSE-': dict(type='MSENegativeLoss'),
        'Hill': dict(type='HillLoss'),
        'SPLC': dict(type='SPLCLoss'),
        'LAS': dict(type='LASLoss', **expected),
        'LASD': dict(type='LASDLoss', **values.lasd, **expected),
        'LL-R': dict(type='LargeLossRejection'),
        'LL-Ct': dict(type='LargeLossCorrection'),
        'LL-Cp': dict(type='LargeLossCorrection', permanent=True),
        'EM': dict(type='EMLoss'),
        # Zhou et al. warm up for half of their ten epochs.
        'EM + APL': dict(type='EMAPLLoss', warmup_epochs=facts.max_epochs // 2, max_epochs=facts.max_epochs),
        'EPR': dict(type='EPRLoss', **expected),
        'ROLE': dict(type='ROLELoss', num_samples=facts.num_samples, num_classes=facts.num_classes, **expected),
        'BCE + RS': dict(type='BCELoss'),
        'RW': dict(type='ReweightedBCELoss'),
        'CB-Focal': dict(type='CBFocalLoss'),
        'LDAM': dict(type='LDAMLoss'),
        'LSEP': dict(type='LSEPLoss'),
        'C-LSEP': dict(type='LSEPLoss', way='class', gamma=5.0),
        'ZLPR': dict(type='ZLPRLoss'),
        'C-ZLPR': dict(type='ZLPRLoss', way='class'),
        'Circle': dict(type='CircleLoss'),
        'DB': dict(type='DBLoss', **values.db),
        'DB-Focal': db_focal,
        'DR': dr,
        'DR + DB-Focal': dict(type='SumLoss', losses=dict(dr=dr, db_focal=db_focal)),
    }


def build_loss(config: dict, labels: torch.Tensor) -> MultiLabelLoss:
    """Build a loss and pass it the labels of its training set, (M, C), if it needs them; sample i is row i."""
    loss = LOSSES.build(dict(config))
    for module in loss.modules():
        if isinstance(module, MultiLabelLoss):
            module.check_inputs = False  # the same inputs in all runs, and tested
            if module.wants_training_labels:
                module.see_training_labels(labels, torch.arange(len(labels)))
    return loss.train()
