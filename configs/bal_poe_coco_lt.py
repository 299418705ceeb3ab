# BalPoE with a BCE base on COCO-LT with class-aware sampling (DR paper, Table 1): three experts, whose class priors
# have the powers 0, 1 and 2. The paper does not print the powers.
_base_ = [
    '_base_/models/resnet50_256.py',
    '_base_/datasets/coco_lt.py',
    '_base_/schedules/dr_paper.py',
    '_base_/losses/bce.py',
    '_base_/default_runtime.py',
]

model = dict(
    head=dict(
        type='mmml_losses.ExpertsHead',
        num_classes=_base_.data_preprocessor.num_classes,
        log_prior_scales=(0.0, 1.0, 2.0),
        loss=dict(_base_.loss, reduction=_base_.loss_reduction),
    )
)
optim_wrapper = dict(optimizer=dict(lr=1e-4))  # Section 4.1
