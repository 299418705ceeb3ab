# Three stages of a ResNet-18 at half the usual width, for 64 px scenes on a CPU. A digit covers a few cells of the last
# 4 x 4 map, so the pooling emphasises the largest values.
model = dict(
    type='ImageClassifier',
    backbone=dict(
        type='ResNet',
        depth=18,
        stem_channels=16,
        base_channels=32,
        num_stages=3,
        strides=(1, 2, 2),
        dilations=(1, 1, 1),
        out_indices=(2,),
        zero_init_residual=False,
    ),
    neck=dict(type='GeneralizedMeanPooling', p=3.0, p_trainable=False),
    head=dict(type='mmml_losses.MultiLabelHead', num_classes=10, in_channels=128),
)
