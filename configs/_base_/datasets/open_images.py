# Open Images V6 with its 9,605 trainable classes: verified positives and negatives, all other labels unknown (-1).
# data/open_images/
#   oidv6-train-annotations-human-imagelabels.csv, test-annotations-human-imagelabels.csv
#   oidv6-classes-trainable.txt, oidv6-class-descriptions.csv
#   train/000002b66c9c498e.jpg, ...; test/
dataset_type = 'mmml_losses.OpenImages'
data_root = 'data/open_images'
data_preprocessor = dict(num_classes=9605, mean=[123.675, 116.28, 103.53], std=[58.395, 57.12, 57.375], to_rgb=True)

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
    dataset=dict(
        type=dataset_type,
        data_root=data_root,
        ann_file='oidv6-train-annotations-human-imagelabels.csv',
        classes_file='oidv6-classes-trainable.txt',
        descriptions_file='oidv6-class-descriptions.csv',
        data_prefix='train',
        skip_missing=True,  # many links have expired
        pipeline=train_pipeline,
    ),
    sampler=dict(type='DefaultSampler', shuffle=True),
)
val_dataloader = dict(
    batch_size=64,
    num_workers=8,
    dataset=dict(
        type=dataset_type,
        data_root=data_root,
        ann_file='test-annotations-human-imagelabels.csv',
        classes_file='oidv6-classes-trainable.txt',
        descriptions_file='oidv6-class-descriptions.csv',
        data_prefix='test',
        skip_missing=True,
        pipeline=test_pipeline,
        test_mode=True,
    ),
    sampler=dict(type='DefaultSampler', shuffle=False),
)
test_dataloader = val_dataloader

val_evaluator = dict(
    type='mmml_losses.MultiLabelEvaluator',  # collects the predictions once for all metrics
    metrics=[dict(type='mmml_losses.MultiLabelAP'), dict(type='mmml_losses.CalibrationError')],
)
test_evaluator = val_evaluator
