# RegNetY-32GF with timm's ImageNet weights (needs `pip install timm`).
model = dict(
    type='ImageClassifier',
    backbone=dict(type='TIMMBackbone', model_name='regnety_320', pretrained=True),
    neck=dict(type='GlobalAveragePooling'),
    head=dict(type='mmml_losses.MultiLabelHead', in_channels=3712),
)
