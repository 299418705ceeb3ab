# VOC-LT as Section 4.1 of the DR paper trains and tests it: the 1,142 published images of VOC 2012, tested on the 4,952
# test images of VOC 2007, at 224 px, with class-aware sampling in batches of 32.
# data/VOCdevkit/
#   VOC2012/ImageSets/Main/trainval.txt, VOC2012/Annotations/, VOC2012/JPEGImages/
#   VOC2007/ImageSets/Main/test.txt, VOC2007/Annotations/, VOC2007/JPEGImages/
dataset_type = 'mmml_losses.VOC'
data_root = 'data/VOCdevkit'
data_preprocessor = dict(num_classes=20, mean=[123.675, 116.28, 103.53], std=[58.395, 57.12, 57.375], to_rgb=True)

train_pipeline = [
    dict(type='LoadImageFromFile'),
    # "Randomly cropped and resized": how much of an image a crop may lose is not said.
    dict(type='RandomResizedCrop', scale=224, crop_ratio_range=(0.5, 1.0)),
    dict(type='RandomFlip', prob=0.5, direction='horizontal'),
    dict(type='PackInputs'),
]
test_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='Resize', scale=(224, 224)),
    dict(type='PackInputs'),
]

train_dataloader = dict(
    batch_size=32,
    num_workers=4,
    dataset=dict(
        type='mmml_losses.LongTailed',
        split='voc-lt',
        dataset=dict(
            type=dataset_type,
            data_root=data_root + '/VOC2012',
            split='trainval',
            difficult='positive',  # as the published labels count
            pipeline=train_pipeline,
        ),
    ),
    sampler=dict(type='mmml_losses.ClassAwareSampler'),
)
val_dataloader = dict(
    batch_size=32,
    num_workers=4,
    dataset=dict(
        type=dataset_type,
        data_root=data_root + '/VOC2007',
        split='test',
        difficult='positive',  # as in training; the paper does not say
        pipeline=test_pipeline,
        test_mode=True,
    ),
    sampler=dict(type='DefaultSampler', shuffle=False),
)
test_dataloader = val_dataloader

# Images of each class in the training set, from which the evaluation has head, medium and tail: 6, 6 and 8 classes.
class_frequencies = [6, 34, 8, 14, 154, 17, 249, 29, 479, 4, 240, 48, 11, 20, 775, 100, 5, 82, 7, 64]
val_evaluator = dict(
    type='mmml_losses.MultiLabelEvaluator',  # collects the predictions once for all metrics
    metrics=[
        dict(type='mmml_losses.MultiLabelAP', class_frequencies=class_frequencies),
        dict(type='mmml_losses.CalibrationError'),
    ],
)
test_evaluator = val_evaluator
