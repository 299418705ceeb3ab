# PASCAL VOC 2012 as the papers count it: 5,717 training images, and the 5,823 of val as the test set.
# data/VOCdevkit/VOC2012/
#   ImageSets/Main/train.txt, ImageSets/Main/val.txt
#   Annotations/2008_000002.xml, ...
#   JPEGImages/2008_000002.jpg, ...
dataset_type = 'mmml_losses.VOC'
data_root = 'data/VOCdevkit/VOC2012'
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
    dataset=dict(type=dataset_type, data_root=data_root, split='train', pipeline=train_pipeline),
    sampler=dict(type='DefaultSampler', shuffle=True),
)
val_dataloader = dict(
    batch_size=64,
    num_workers=8,
    dataset=dict(type=dataset_type, data_root=data_root, split='val', pipeline=test_pipeline, test_mode=True),
    sampler=dict(type='DefaultSampler', shuffle=False),
)
test_dataloader = val_dataloader

val_evaluator = dict(
    type='mmml_losses.MultiLabelEvaluator',  # collects the predictions once for all metrics
    metrics=[dict(type='mmml_losses.MultiLabelAP'), dict(type='mmml_losses.CalibrationError')],
)
test_evaluator = val_evaluator
