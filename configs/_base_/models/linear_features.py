# One linear layer on standardised features. Its bias starts low, as labels are rare.
model = dict(
    type='ImageClassifier',
    data_preprocessor=dict(type='mmml_losses.FeaturePreprocessor', standardize=True),
    backbone=dict(type='mmml_losses.FeatureBackbone'),
    head=dict(
        type='mmml_losses.MultiLabelHead',
        num_classes=80,
        in_channels=1280,
        init_cfg=dict(type='Normal', layer='Linear', std=0.01, bias=-2.0),
    ),
)
