# DR + DB Focal on COCO-LT with class-aware sampling (DR paper, Table 1).
_base_ = [
    '_base_/models/resnet50_256.py',
    '_base_/datasets/coco_lt.py',
    '_base_/schedules/dr_paper.py',
    '_base_/losses/dr_db_focal.py',
    '_base_/default_runtime.py',
]

parts = _base_.loss.losses
loss = dict(
    type='mmml_losses.SumLoss',
    losses=dict(
        dr=dict(parts.dr, constraint_scale=10.0),  # gamma 2, Table 2
        db_focal=dict(parts.db_focal, mu=0.2, negative_scale=2.0),  # DB's published values for COCO-LT
    ),
)
model = dict(head=dict(num_classes=_base_.data_preprocessor.num_classes, loss=loss))
optim_wrapper = dict(optimizer=dict(lr=1e-4))  # Section 4.1
