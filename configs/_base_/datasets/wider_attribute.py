# WIDER Attribute: each person is a sample. Table 2 of the SPA paper counts 28,340 training and 29,117 test samples.
# data/wider_attribute/
#   Image/train/, Image/val/, Image/test/
#   wider_attribute_annotation/wider_attribute_trainval.json, wider_attribute_annotation/wider_attribute_test.json
dataset_type = 'mmml_losses.WIDERAttribute'
data_root = 'data/wider_attribute'
data_preprocessor = dict(num_classes=14, mean=[123.675, 116.28, 103.53], std=[58.395, 57.12, 57.375], to_rgb=True)

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
        ann_file='wider_attribute_annotation/wider_attribute_trainval.json',
        data_prefix='Image',
        drop_empty=True,
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
        ann_file='wider_attribute_annotation/wider_attribute_test.json',
        data_prefix='Image',
        drop_empty=True,
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
