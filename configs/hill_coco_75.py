# Hill on COCO with 75% of its labels left (Simple and Robust Loss Design for Multi-Label Learning with Missing Labels,
# Table III), ResNet-50 at 448 px.
_base_ = [
    '_base_/models/resnet50.py',
    '_base_/datasets/coco_75.py',
    '_base_/schedules/hill_paper.py',
    '_base_/losses/hill.py',
    '_base_/ema_runtime.py',
]

loss = dict(_base_.loss, reduction=_base_.loss_reduction)
model = dict(head=dict(num_classes=_base_.data_preprocessor.num_classes, loss=loss))
