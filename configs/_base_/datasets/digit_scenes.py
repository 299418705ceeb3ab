# DigitScenes is made on first use, without a download, under data/digit_scenes.
_base_ = '_images.py'

dataset_type = 'mmml_losses.DigitScenes'
data_root = 'data/digit_scenes'
data_preprocessor = dict(num_classes=10, mean=[80.0, 80.0, 80.0], std=[60.0, 60.0, 60.0], to_rgb=False)

train_pipeline = [
    dict(type='LoadImageFromFile'),
    # A shift by a few pixels at most, and no mirrored border: more would cut off digits, or add some, that the labels
    # do not know of.
    dict(type='RandomCrop', crop_size=64, padding=3, padding_mode='edge'),
    dict(type='PackInputs'),
]
test_pipeline = [dict(type='LoadImageFromFile'), dict(type='PackInputs')]

train_dataloader = dict(
    batch_size=64,
    num_workers=0,
    dataset=dict(type=dataset_type, data_root=data_root, split='train', pipeline=train_pipeline),
)
val_dataloader = dict(
    num_workers=0,
    dataset=dict(type=dataset_type, data_root=data_root, split='test', pipeline=test_pipeline),
)
test_dataloader = val_dataloader
