# COCO 2014 as Table 2 of the SPA paper counts it: the 82,081 training and 40,137 test images that have a label.
# data/coco/
#   annotations/instances_train2014.json, annotations/instances_val2014.json
#   train2014/, val2014/
_base_ = '_images.py'

dataset_type = 'mmml_losses.CocoMultiLabel'
data_root = 'data/coco'
data_preprocessor = dict(num_classes=80)

train_dataloader = dict(
    dataset=dict(
        type=dataset_type,
        data_root=data_root,
        ann_file='annotations/instances_train2014.json',
        data_prefix='train2014',
        drop_empty=True,
    )
)
val_dataloader = dict(
    dataset=dict(
        type=dataset_type,
        data_root=data_root,
        ann_file='annotations/instances_val2014.json',
        data_prefix='val2014',
        drop_empty=True,
    )
)
test_dataloader = val_dataloader
