# DigitScenes is made on first use, without a download, under data/digit_scenes.
dataset_type = 'mmml_losses.DigitScenes'
data_root = 'data/digit_scenes'
data_preprocessor = dict(num_classes=10, mean=[96.0, 96.0, 96.0], std=[64.0, 64.0, 64.0], to_rgb=False)

train_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='RandomCrop', crop_size=64, padding=6, padding_mode='reflect'),
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

val_evaluator = [dict(type='mmml_losses.MultiLabelAP'), dict(type='mmml_losses.CalibrationError')]
test_evaluator = val_evaluator
