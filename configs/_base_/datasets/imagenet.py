# ImageNet with one label an image, as the two-way paper trains on it (Section 4.4): 1,281,167 training images, and the
# 50,000 of val as the test set.
# data/imagenet/
#   train/n01440764/n01440764_10026.JPEG, ...; val/n01440764/ILSVRC2012_val_00000293.JPEG, ...
#   or, with classes_file, lists of paths and class indices: meta/train.txt, meta/val.txt
dataset_type = 'mmml_losses.ImageNetMultiLabel'
data_root = 'data/imagenet'
data_preprocessor = dict(num_classes=1000, mean=[123.675, 116.28, 103.53], std=[58.395, 57.12, 57.375], to_rgb=True)

train_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='RandomResizedCrop', scale=224),
    dict(type='RandomFlip', prob=0.5, direction='horizontal'),
    dict(type='PackInputs'),
]
test_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='ResizeEdge', scale=256, edge='short'),
    dict(type='CenterCrop', crop_size=224),
    dict(type='PackInputs'),
]

train_dataloader = dict(
    batch_size=128,  # on each of 4 GPUs
    num_workers=8,
    dataset=dict(type=dataset_type, data_root=data_root, split='train', pipeline=train_pipeline),
    sampler=dict(type='DefaultSampler', shuffle=True),
)
val_dataloader = dict(
    batch_size=128,
    num_workers=8,
    dataset=dict(type=dataset_type, data_root=data_root, split='val', pipeline=test_pipeline, test_mode=True),
    sampler=dict(type='DefaultSampler', shuffle=False),
)
test_dataloader = val_dataloader

val_evaluator = dict(
    type='mmml_losses.MultiLabelEvaluator',  # collects the predictions once for all metrics
    metrics=[
        dict(type='mmml_losses.MultiLabelF1', items=['OP'], top_k=1),  # OP@1 is the accuracy, as there is one label
        dict(type='mmml_losses.MultiLabelAP'),
        dict(type='mmml_losses.CalibrationError'),
    ],
)
test_evaluator = val_evaluator
