# ResNet-101 with ImageNet weights.
_base_ = 'resnet50.py'

model = dict(
    backbone=dict(
        depth=101,
        init_cfg=dict(
            checkpoint='https://download.openmmlab.com/mmclassification/v0/resnet/'
            'resnet101_8xb32_in1k_20210831-539c63f8.pth',
        ),
    ),
)
