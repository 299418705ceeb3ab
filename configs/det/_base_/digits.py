# DigitScenes for detectors, with runtime and schedule: made on first use, without a download, under
# data/digit_scenes_96.
_base_ = ['mmdet::_base_/default_runtime.py', 'plugin.py', 'schedule_digits.py']

scenes = dict(
    type='mmml_losses.DigitScenes',
    data_root='data/digit_scenes_96',
    num_train=6000,
    num_test=1000,
    image_size=96,
    digit_size=(20, 36),
    with_boxes=True,
)
train_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='LoadAnnotations', with_bbox=True),
    dict(type='PackDetInputs'),
]
test_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='Resize', scale=(96, 96)),  # no change: the heads need the scale factor
    dict(type='LoadAnnotations', with_bbox=True),
    dict(type='PackDetInputs', meta_keys=('img_id', 'img_path', 'ori_shape', 'img_shape', 'scale_factor')),
]

train_dataloader = dict(
    batch_size=16,
    num_workers=0,
    sampler=dict(type='DefaultSampler', shuffle=True),
    dataset=dict(**scenes, split='train', pipeline=train_pipeline),
)
val_dataloader = dict(
    batch_size=32,
    num_workers=0,
    sampler=dict(type='DefaultSampler', shuffle=False),
    dataset=dict(**scenes, split='test', pipeline=test_pipeline, test_mode=True),
)
test_dataloader = val_dataloader

val_evaluator = [
    dict(type='CocoMetric', ann_file='data/digit_scenes_96/annotations/instances_test.json', metric='bbox'),
    dict(type='mmml_losses.DetectionCalibrationError'),
]
test_evaluator = val_evaluator

default_hooks = dict(checkpoint=dict(max_keep_ckpts=2))
randomness = dict(seed=0)
