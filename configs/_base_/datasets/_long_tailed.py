# Shared by VOC-LT and COCO-LT, as Section 4.1 of the DR paper trains and tests on them: published lists of training
# images, 224 px, class-aware sampling in batches of 32.
_base_ = '_images.py'

train_pipeline = [
    dict(type='LoadImageFromFile'),
    # The augmentation of the DB loss, to which the DR paper refers (Section 4.1, reference 35): extra_aug and
    # flip_ratio of the configs of both codes.
    dict(type='mmml_losses.PhotometricDistortion', brightness=32, contrast=(0.5, 1.5), saturation=(0.5, 1.5), hue=18),
    dict(type='mmml_losses.RandomSideCrop', smallest=0.8),
    dict(type='Resize', scale=(224, 224)),
    dict(type='RandomFlip', prob=0.5, direction='horizontal'),
    dict(type='PackInputs'),
]

train_dataloader = dict(
    batch_size=32,
    num_workers=4,
    drop_last=True,  # as both codes do (loader/build_loader.py)
    dataset=dict(_delete_=True, type='mmml_losses.LongTailed', dataset=dict(pipeline=train_pipeline)),
    sampler=dict(_delete_=True, type='mmml_losses.ClassAwareSampler'),
)
val_dataloader = dict(batch_size=32, num_workers=4)
test_dataloader = val_dataloader
