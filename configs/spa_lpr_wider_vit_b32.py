# SPA + LPR on WIDER Attribute with the transformer of the paper's Table 3.
_base_ = [
    '_base_/models/vit_b32.py',
    '_base_/datasets/wider_attribute_negative.py',
    '_base_/schedules/spa_paper.py',
    '_base_/losses/spa_lpr.py',
    '_base_/default_runtime.py',
]

model = dict(head=dict(num_classes=_base_.data_preprocessor.num_classes, loss=_base_.loss))
data_preprocessor = dict(_base_.normalization)
