# PASCAL VOC 2007 as the papers count it: 5,011 training and 4,952 test images.
# data/VOCdevkit/VOC2007/
#   ImageSets/Main/trainval.txt, ImageSets/Main/test.txt
#   Annotations/000005.xml, ...
#   JPEGImages/000005.jpg, ...
dataset_type = 'mmml_losses.VOC'
data_root = 'data/VOCdevkit/VOC2007'
data_preprocessor = dict(num_classes=20, mean=[123.675, 116.28, 103.53], std=[58.395, 57.12, 57.375], to_rgb=True)

train_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='Resize', scale=(448, 448)),  # the whole image: a crop could lose an object and keep its label
    dict(type='RandomFlip', prob=0.5, direction='horizontal'),
    dict(type='PackInputs'),
]
test_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='Resize', scale=(448, 448)),
    dict(type='PackInputs'),
]

train_dataloader = dict(
    batch_size=64,
    num_workers=8,
    dataset=dict(type=dataset_type, data_root=data_root, split='trainval', pipeline=train_pipeline),
    sampler=dict(type='DefaultSampler', shuffle=True),
)
val_dataloader = dict(
    batch_size=64,
    num_workers=8,
    dataset=dict(type=dataset_type, data_root=data_root, split='test', pipeline=test_pipeline, test_mode=True),
    sampler=dict(type='DefaultSampler', shuffle=False),
)
test_dataloader = val_dataloader

val_evaluator = dict(
    type='mmml_losses.MultiLabelEvaluator',  # collects the predictions once for all metrics
    metrics=[dict(type='mmml_losses.MultiLabelAP'), dict(type='mmml_losses.CalibrationError')],
)
test_evaluator = val_evaluator
