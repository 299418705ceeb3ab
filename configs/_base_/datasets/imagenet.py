# ImageNet with one label per image, as the two-way paper trains on it (Section 4.4): 1,281,167 training images, and the
# 50,000 of val as the test set.
# data/imagenet/
#   train/n01440764/n01440764_10026.JPEG, ...; val/n01440764/ILSVRC2012_val_00000293.JPEG, ...
#   or, with classes_file, lists of paths and class indices: meta/train.txt, meta/val.txt
_base_ = '_images.py'

dataset_type = 'mmml_losses.ImageNetMultiLabel'
data_root = 'data/imagenet'
data_preprocessor = dict(num_classes=1000)

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
    dataset=dict(type=dataset_type, data_root=data_root, split='train', pipeline=train_pipeline),
)
val_dataloader = dict(
    batch_size=128,
    dataset=dict(type=dataset_type, data_root=data_root, split='val', pipeline=test_pipeline),
)
test_dataloader = val_dataloader

val_evaluator = dict(
    metrics=[
        dict(type='mmml_losses.MultiLabelF1', items=['OP'], top_k=1),  # OP@1 is the accuracy, as there is one label
        *_base_.val_evaluator.metrics,
    ],
)
test_evaluator = val_evaluator
