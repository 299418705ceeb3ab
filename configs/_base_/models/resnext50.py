# ResNeXt-50 32x4d with ImageNet weights.
model = dict(
    type='ImageClassifier',
    backbone=dict(
        type='ResNeXt',
        depth=50,
        groups=32,
        width_per_group=4,
        out_indices=(3,),
        init_cfg=dict(
            type='Pretrained',
            checkpoint='https://download.openmmlab.com/mmclassification/v0/resnext/'
            'resnext50_32x4d_b32x8_imagenet_20210429-56066e27.pth',
            prefix='backbone',
        ),
    ),
    neck=dict(type='GlobalAveragePooling'),
    head=dict(type='mmml_losses.MultiLabelHead', in_channels=2048),
)
