# DigitScenes is made on first use, without a download, under data/digit_scenes.
dataset_type = 'mmml_losses.DigitScenes'
data_root = 'data/digit_scenes'
data_preprocessor = dict(num_classes=10, mean=[80.0, 80.0, 80.0], std=[60.0, 60.0, 60.0], to_rgb=False)

train_pipeline = [
    dict(type='LoadImageFromFile'),
    # A few pixels only, and no mirrored border: more would cut digits off, or add some, behind the label's back.
    dict(type='RandomCrop', crop_size=64, padding=3, padding_mode='edge'),
    dict(type='PackInputs'),
]
test_pipeline = [dict(type='LoadImageFromFile'), dict(type='PackInputs')]

train_dataloader = dict(
    batch_size=64,
    num_workers=0,
    dataset=dict(type=dataset_type, data_root=data_root, split='train', pipeline=train_pipeline),
    sampler=dict(type='DefaultSampler', shuffle=True),
)
val_dataloader = dict(
    batch_size=256,
    num_workers=0,
    dataset=dict(type=dataset_type, data_root=data_root, split='test', pipeline=test_pipeline, test_mode=True),
    sampler=dict(type='DefaultSampler', shuffle=False),
)
test_dataloader = val_dataloader

val_evaluator = dict(
    type='mmml_losses.MultiLabelEvaluator',  # collects the predictions once for all metrics
    metrics=[dict(type='mmml_losses.MultiLabelAP'), dict(type='mmml_losses.CalibrationError')],
)
test_evaluator = val_evaluator
