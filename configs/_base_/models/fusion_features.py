# Answers from standardised features of a question and of an image. Both are projected and multiplied, and a linear
# layer follows. The widths fit a BERT and a ResNet-50.
model = dict(
    type='ImageClassifier',
    data_preprocessor=dict(type='mmml_losses.FeaturePreprocessor', standardize=True),
    backbone=dict(type='mmml_losses.FeatureBackbone'),
    neck=dict(type='mmml_losses.FeatureFusion', in_channels=(768, 2048), out_channels=1024, dropout=0.5),
    head=dict(
        type='mmml_losses.MultiLabelHead',
        num_classes=3129,
        in_channels=1024,
        init_cfg=dict(type='Normal', layer='Linear', std=0.01, bias=-2.0),
    ),
)
