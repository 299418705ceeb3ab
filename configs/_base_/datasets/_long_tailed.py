# Shared by VOC-LT and COCO-LT, as Section 4.1 of the DR paper trains and tests on them: published lists of training
# images, 224 px, class-aware sampling in batches of 32.
_base_ = '_images.py'

train_pipeline = [
    dict(type='LoadImageFromFile'),
    # "Randomly cropped and resized": the paper does not state how much of an image a crop may lose.
    dict(type='RandomResizedCrop', scale=224, crop_ratio_range=(0.5, 1.0)),
    dict(type='RandomFlip', prob=0.5, direction='horizontal'),
    dict(type='PackInputs'),
]

train_dataloader = dict(
    batch_size=32,
    num_workers=4,
    dataset=dict(_delete_=True, type='mmml_losses.LongTailed', dataset=dict(pipeline=train_pipeline)),
    sampler=dict(_delete_=True, type='mmml_losses.ClassAwareSampler'),
)
val_dataloader = dict(batch_size=32, num_workers=4)
test_dataloader = val_dataloader
