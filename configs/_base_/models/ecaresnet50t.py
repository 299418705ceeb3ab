# ECA-ResNet50-T with timm's ImageNet weights (needs `pip install timm`).
model = dict(
    type='ImageClassifier',
    backbone=dict(type='TIMMBackbone', model_name='ecaresnet50t', pretrained=True),
    neck=dict(type='GlobalAveragePooling'),
    head=dict(type='mmml_losses.MultiLabelHead', in_channels=2048),
)
