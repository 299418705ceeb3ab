# COCO-LT as Section 4.1 of the DR paper trains and tests it: the 1,909 published images of train2017, tested on all
# 5,000 images of val2017, at 224 px, with class-aware sampling in batches of 32.
# data/coco/
#   annotations/instances_train2017.json, annotations/instances_val2017.json
#   train2017/, val2017/
dataset_type = 'mmml_losses.CocoMultiLabel'
data_root = 'data/coco'
data_preprocessor = dict(num_classes=80, mean=[123.675, 116.28, 103.53], std=[58.395, 57.12, 57.375], to_rgb=True)

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
        split='coco-lt',
        dataset=dict(
            type=dataset_type,
            data_root=data_root,
            ann_file='annotations/instances_train2017.json',
            data_prefix='train2017',
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
        data_root=data_root,
        ann_file='annotations/instances_val2017.json',
        data_prefix='val2017',
        pipeline=test_pipeline,
        test_mode=True,
    ),
    sampler=dict(type='DefaultSampler', shuffle=False),
)
test_dataloader = val_dataloader

# Images of each class in the training set, from which the evaluation has head, medium and tail: 22, 33 and 25 classes.
class_frequencies = [
    *(1128, 37, 276, 32, 9, 41, 18, 87, 20, 50, 11, 13, 8, 97, 19, 49, 70, 17, 7, 10),
    *(8, 6, 7, 7, 100, 39, 189, 31, 24, 11, 12, 8, 35, 10, 25, 21, 17, 10, 20, 460),
    *(84, 498, 126, 207, 173, 366, 39, 35, 44, 36, 29, 25, 14, 45, 16, 73, 585, 153, 164, 44),
    *(624, 25, 200, 137, 70, 89, 73, 127, 91, 175, 9, 237, 119, 292, 87, 113, 15, 21, 6, 11),
]
val_evaluator = dict(
    type='mmml_losses.MultiLabelEvaluator',  # collects the predictions once for all metrics
    metrics=[
        dict(type='mmml_losses.MultiLabelAP', class_frequencies=class_frequencies),
        dict(type='mmml_losses.CalibrationError'),
    ],
)
test_evaluator = val_evaluator
