# Hill on COCO with 40% of its labels left, MobileNetV3-Large (Hill and SPLC paper, Table IX). The other rows of the
# table are other losses, such as --loss splc.
_base_ = [
    '_base_/models/mobilenet_v3_large.py',
    '_base_/datasets/coco_40.py',
    '_base_/schedules/hill_paper.py',
    '_base_/losses/hill.py',
    '_base_/ema_runtime.py',
]

loss = dict(_base_.loss, reduction=_base_.loss_reduction)
model = dict(head=dict(num_classes=_base_.data_preprocessor.num_classes, loss=loss))
