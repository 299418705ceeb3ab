# SPA + LPR on WIDER Attribute at 224 px (Towards Calibrated Multi-label Deep Neural Networks, Section 5.1), on a
# ResNet-50. The paper's two networks are in spa_lpr_wider_ecaresnet50t.py and spa_lpr_wider_vit_b32.py.
_base_ = [
    '_base_/models/resnet50.py',
    '_base_/datasets/wider_attribute_negative.py',
    '_base_/schedules/spa_paper.py',
    '_base_/losses/spa_lpr.py',
    '_base_/default_runtime.py',
]

model = dict(head=dict(num_classes=_base_.data_preprocessor.num_classes, loss=_base_.loss))
