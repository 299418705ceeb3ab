# COCO-LT: the 1,909 published images of COCO's train2017, tested on all 5,000 images of val2017.
# data/coco/
#   annotations/instances_train2017.json, annotations/instances_val2017.json
#   train2017/, val2017/
_base_ = '_long_tailed.py'

dataset_type = 'mmml_losses.CocoMultiLabel'
data_root = 'data/coco'
data_preprocessor = dict(num_classes=80)

train_dataloader = dict(
    dataset=dict(
        split='coco-lt',
        dataset=dict(
            type=dataset_type,
            data_root=data_root,
            ann_file='annotations/instances_train2017.json',
            data_prefix='train2017',
        ),
    )
)
val_dataloader = dict(
    dataset=dict(
        type=dataset_type,
        data_root=data_root,
        ann_file='annotations/instances_val2017.json',
        data_prefix='val2017',
    )
)
test_dataloader = val_dataloader

# Images of each class in the training set. They make 22 classes head, 33 medium and 25 tail in the evaluation.
class_frequencies = [
    *(1128, 37, 276, 32, 9, 41, 18, 87, 20, 50, 11, 13, 8, 97, 19, 49, 70, 17, 7, 10),
    *(8, 6, 7, 7, 100, 39, 189, 31, 24, 11, 12, 8, 35, 10, 25, 21, 17, 10, 20, 460),
    *(84, 498, 126, 207, 173, 366, 39, 35, 44, 36, 29, 25, 14, 45, 16, 73, 585, 153, 164, 44),
    *(624, 25, 200, 137, 70, 89, 73, 127, 91, 175, 9, 237, 119, 292, 87, 113, 15, 21, 6, 11),
]
val_evaluator = dict(
    metrics=[
        dict(type='mmml_losses.MultiLabelAP', class_frequencies=class_frequencies),
        dict(type='mmml_losses.CalibrationError'),
    ],
)
test_evaluator = val_evaluator
