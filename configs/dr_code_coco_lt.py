# DR on COCO-LT as the authors' code trains it: the mean over the classes, and more epochs than dr_coco_lt.py.
_base_ = [
    '_base_/models/resnet50_256.py',
    '_base_/datasets/coco_lt.py',
    '_base_/schedules/dr_code.py',
    '_base_/losses/dr.py',
    '_base_/default_runtime.py',
]

loss = dict(_base_.loss, constraint_scale=10.0, reduction=_base_.loss_reduction)
model = dict(head=dict(num_classes=_base_.data_preprocessor.num_classes, loss=loss))
optim_wrapper = dict(optimizer=dict(lr=1e-4))  # as in the paper, Section 4.1
train_cfg = dict(max_epochs=35)
