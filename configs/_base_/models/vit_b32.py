# ViT-B/32 on the class token. The weights were fine-tuned on ImageNet at 384 px; the position embedding is resized.
model = dict(
    type='ImageClassifier',
    backbone=dict(
        type='VisionTransformer',
        arch='b',
        img_size=224,
        patch_size=32,
        out_type='cls_token',
        init_cfg=dict(
            type='Pretrained',
            checkpoint='https://download.openmmlab.com/mmclassification/v0/vit/finetune/'
            'vit-base-p32_in21k-pre-3rdparty_ft-64xb64_in1k-384_20210928-9cea8599.pth',
            prefix='backbone',
        ),
    ),
    neck=None,
    head=dict(type='mmml_losses.MultiLabelHead', in_channels=768),
)
# Of the images, as its weights were trained; `--model vit_b32` and the configs on top set it.
normalization = dict(mean=[127.5, 127.5, 127.5], std=[127.5, 127.5, 127.5])
