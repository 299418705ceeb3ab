# NUS-WIDE as the Hill and SPLC paper takes it from ASL: 119,103 training and 50,720 test images, all with a label.
# data/nus_wide/
#   nus_wid_data.csv (filepath, label, split_name)
#   the images, at the paths of the table
_base_ = ['_images_448.py', '_hill.py']

dataset_type = 'mmml_losses.NUSWIDE'
data_root = 'data/nus_wide'
data_preprocessor = dict(_base_.hill_pixels, num_classes=81)

train_pipeline = _base_.hill_train_pipeline
train_dataloader = dict(
    batch_size=128,
    dataset=dict(
        type=dataset_type,
        data_root=data_root,
        split='train',
        pipeline=train_pipeline,
        protocol='csv',
        data_prefix='',
    ),
)
val_dataloader = dict(
    dataset=dict(
        type=dataset_type,
        data_root=data_root,
        split='test',
        protocol='csv',
        data_prefix='',
    )
)
test_dataloader = val_dataloader

val_evaluator = dict(metrics=_base_.hill_metrics)
test_evaluator = val_evaluator
