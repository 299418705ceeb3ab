# DR on VOC-LT with class-aware sampling (Distributionally Robust Loss for Long-Tailed Multi-Label Image Classification,
# Table 1), ResNet-50 at 224 px.
_base_ = [
    '_base_/models/resnet50_256.py',
    '_base_/datasets/voc_lt.py',
    '_base_/schedules/dr_paper.py',
    '_base_/losses/dr.py',
    '_base_/default_runtime.py',
]

loss = dict(_base_.loss, reduction=_base_.loss_reduction)
model = dict(head=dict(num_classes=_base_.data_preprocessor.num_classes, loss=loss))
