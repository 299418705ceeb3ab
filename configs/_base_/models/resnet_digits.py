# A ResNet-18 of a quarter of the usual width, for 64 px scenes on a CPU.
model = dict(
    type='ImageClassifier',
    backbone=dict(type='ResNet', depth=18, stem_channels=16, base_channels=16, num_stages=4, out_indices=(3,)),
    neck=dict(type='GlobalAveragePooling'),
    head=dict(type='mmml_losses.MultiLabelHead', num_classes=10, in_channels=128),
)
