# One hidden layer on standardised features.
model = dict(
    type='ImageClassifier',
    data_preprocessor=dict(type='mmml_losses.FeaturePreprocessor', standardize=True),
    backbone=dict(type='mmml_losses.FeatureBackbone'),
    neck=dict(
        type='LinearNeck', in_channels=1280, out_channels=512, norm_cfg=dict(type='BN1d'), act_cfg=dict(type='ReLU')
    ),
    head=dict(
        type='mmml_losses.MultiLabelHead',
        num_classes=80,
        in_channels=512,
        init_cfg=dict(type='Normal', layer='Linear', std=0.01, bias=-2.0),
    ),
)
