# Swin-S with ImageNet weights of 224 px, in windows of 7 x 7: any image size divisible by 32 works.
model = dict(
    type='ImageClassifier',
    backbone=dict(
        type='SwinTransformer',
        arch='small',
        img_size=448,
        drop_path_rate=0.3,
        init_cfg=dict(
            type='Pretrained',
            checkpoint='https://download.openmmlab.com/mmclassification/v0/swin-transformer/'
            'swin_small_224_b16x64_300e_imagenet_20210615_110219-7f9d988b.pth',
            prefix='backbone',
        ),
    ),
    neck=dict(type='GlobalAveragePooling'),
    head=dict(type='mmml_losses.MultiLabelHead', in_channels=768),
)
