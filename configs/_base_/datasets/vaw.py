# VAW as Table 6 of the two-way paper counts it: 229,076 instances of train and val for training, 31,819 for testing.
# data/vaw/
#   attribute_index.json
#   train_part1.json, train_part2.json, val.json, test.json
#   VG_100K/, VG_100K_2/
dataset_type = 'mmml_losses.VAW'
data_root = 'data/vaw'
data_preprocessor = dict(num_classes=620, mean=[123.675, 116.28, 103.53], std=[58.395, 57.12, 57.375], to_rgb=True)

train_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='mmml_losses.CropToBox'),
    dict(type='Resize', scale=(224, 224)),
    dict(type='RandomFlip', prob=0.5, direction='horizontal'),
    dict(type='PackInputs'),
]
test_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='mmml_losses.CropToBox'),
    dict(type='Resize', scale=(224, 224)),
    dict(type='PackInputs'),
]

train_dataloader = dict(
    batch_size=256,
    num_workers=8,
    dataset=dict(
        type=dataset_type,
        data_root=data_root,
        ann_file=['train_part1.json', 'train_part2.json', 'val.json'],
        pipeline=train_pipeline,
    ),
    sampler=dict(type='DefaultSampler', shuffle=True),
)
val_dataloader = dict(
    batch_size=256,
    num_workers=8,
    dataset=dict(
        type=dataset_type,
        data_root=data_root,
        ann_file='test.json',
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
