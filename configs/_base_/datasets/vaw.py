# VAW as Table 6 of the two-way paper counts it: 229,076 instances of train and val for training, 31,819 for testing.
# data/vaw/
#   attribute_index.json
#   train_part1.json, train_part2.json, val.json, test.json
#   VG_100K/, VG_100K_2/
_base_ = '_images.py'

dataset_type = 'mmml_losses.VAW'
data_root = 'data/vaw'
data_preprocessor = dict(num_classes=620)

train_pipeline = [_base_.train_pipeline[0], dict(type='mmml_losses.CropToBox'), *_base_.train_pipeline[1:]]
test_pipeline = [_base_.test_pipeline[0], dict(type='mmml_losses.CropToBox'), *_base_.test_pipeline[1:]]

train_dataloader = dict(
    dataset=dict(
        type=dataset_type,
        data_root=data_root,
        ann_file=['train_part1.json', 'train_part2.json', 'val.json'],
        pipeline=train_pipeline,
    )
)
val_dataloader = dict(
    dataset=dict(type=dataset_type, data_root=data_root, ann_file='test.json', pipeline=test_pipeline)
)
test_dataloader = val_dataloader
