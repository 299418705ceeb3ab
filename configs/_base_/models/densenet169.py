# DenseNet-169 with ImageNet weights.
model = dict(
    type='ImageClassifier',
    backbone=dict(
        type='DenseNet',
        arch='169',
        init_cfg=dict(
            type='Pretrained',
            checkpoint='https://download.openmmlab.com/mmclassification/v0/densenet/'
            'densenet169_4xb256_in1k_20220426-a2889902.pth',
            prefix='backbone',
        ),
    ),
    neck=dict(type='GlobalAveragePooling'),
    head=dict(type='mmml_losses.MultiLabelHead', in_channels=1664),
)
