# MobileNetV3-Large with ImageNet weights, without the hidden layer of its ImageNet classifier.
model = dict(
    type='ImageClassifier',
    backbone=dict(
        type='MobileNetV3',
        arch='large',
        init_cfg=dict(
            type='Pretrained',
            checkpoint='https://download.openmmlab.com/mmclassification/v0/mobilenet_v3/'
            'mobilenet-v3-large_8xb128_in1k_20221114-0ed9ed9a.pth',
            prefix='backbone',
        ),
    ),
    neck=dict(type='GlobalAveragePooling'),
    head=dict(type='mmml_losses.MultiLabelHead', in_channels=960),
)
