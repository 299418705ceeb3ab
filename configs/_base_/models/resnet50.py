# ResNet-50 with ImageNet weights. A config on top sets the number of classes.
model = dict(
    type='ImageClassifier',
    backbone=dict(
        type='ResNet',
        depth=50,
        out_indices=(3,),
        init_cfg=dict(
            type='Pretrained',
            checkpoint='https://download.openmmlab.com/mmclassification/v0/resnet/'
            'resnet50_8xb32_in1k_20210831-ea4938fc.pth',
            prefix='backbone',
        ),
    ),
    neck=dict(type='GlobalAveragePooling'),
    head=dict(type='mmml_losses.MultiLabelHead', in_channels=2048),
)
