# Shared by the datasets of images: ImageNet's normalisation, pipelines at 224 px, samplers and metrics. A dataset adds
# its reader, its files and its number of classes; their paths are relative to the folder a training starts in.
data_preprocessor = dict(mean=[123.675, 116.28, 103.53], std=[58.395, 57.12, 57.375], to_rgb=True)

# The whole image is resized: a crop could lose an object and keep its label. The SPA paper states the size and no
# augmentation, the two-way paper neither: the flip, and for the latter the 224 px, are ours.
train_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='Resize', scale=(224, 224)),
    dict(type='RandomFlip', prob=0.5, direction='horizontal'),
    dict(type='PackInputs'),
]
test_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='Resize', scale=(224, 224)),
    dict(type='PackInputs'),
]

train_dataloader = dict(
    batch_size=256,
    num_workers=8,
    dataset=dict(pipeline=train_pipeline),
    sampler=dict(type='DefaultSampler', shuffle=True),
)
val_dataloader = dict(
    batch_size=256,
    num_workers=8,
    dataset=dict(pipeline=test_pipeline, test_mode=True),
    sampler=dict(type='DefaultSampler', shuffle=False),
)
test_dataloader = val_dataloader

val_evaluator = dict(
    type='mmml_losses.MultiLabelEvaluator',  # collects the predictions once for all metrics
    metrics=[dict(type='mmml_losses.MultiLabelAP'), dict(type='mmml_losses.CalibrationError')],
)
test_evaluator = val_evaluator
