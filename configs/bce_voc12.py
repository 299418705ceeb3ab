# "BCE (full labels)" on VOC 2012 of the Hill and SPLC paper (Table IV): its recipe without missing labels.
_base_ = [
    '_base_/models/resnet50.py',
    '_base_/datasets/voc2012_hill.py',
    '_base_/schedules/hill_paper.py',
    '_base_/losses/bce.py',
    '_base_/ema_runtime.py',
]

loss = dict(_base_.loss, reduction=_base_.loss_reduction)
model = dict(head=dict(num_classes=_base_.data_preprocessor.num_classes, loss=loss))
