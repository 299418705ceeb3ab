# SPA + LPR on WIDER Attribute with the CNN of the paper's Table 3, through timm.
_base_ = [
    '_base_/models/ecaresnet50t.py',
    '_base_/datasets/wider_attribute_negative.py',
    '_base_/schedules/spa_paper.py',
    '_base_/losses/spa_lpr.py',
    '_base_/default_runtime.py',
]

model = dict(head=dict(num_classes=_base_.data_preprocessor.num_classes, loss=_base_.loss))
