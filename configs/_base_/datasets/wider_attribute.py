# WIDER Attribute: each person is a sample. Table 2 of the SPA paper counts 28,340 training and 29,117 test samples.
# Attributes that nobody specified are unknown. The two-way paper's code leaves unknown labels out of its loss; for the
# SPA paper they are negative, see wider_attribute_negative.py.
# data/wider_attribute/
#   Image/train/, Image/val/, Image/test/
#   wider_attribute_annotation/wider_attribute_trainval.json, wider_attribute_annotation/wider_attribute_test.json
_base_ = '_images.py'

dataset_type = 'mmml_losses.WIDERAttribute'
data_root = 'data/wider_attribute'
data_preprocessor = dict(num_classes=14)

train_pipeline = [_base_.train_pipeline[0], dict(type='mmml_losses.CropToBox'), *_base_.train_pipeline[1:]]
test_pipeline = [_base_.test_pipeline[0], dict(type='mmml_losses.CropToBox'), *_base_.test_pipeline[1:]]

train_dataloader = dict(
    dataset=dict(
        type=dataset_type,
        data_root=data_root,
        ann_file='wider_attribute_annotation/wider_attribute_trainval.json',
        data_prefix='Image',
        drop_empty=True,
        pipeline=train_pipeline,
    )
)
val_dataloader = dict(
    dataset=dict(
        type=dataset_type,
        data_root=data_root,
        ann_file='wider_attribute_annotation/wider_attribute_test.json',
        data_prefix='Image',
        drop_empty=True,
        pipeline=test_pipeline,
    )
)
test_dataloader = val_dataloader
