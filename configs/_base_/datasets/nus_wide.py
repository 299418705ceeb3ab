# NUS-WIDE as the Hill and SPLC paper takes it from ASL: 119,103 training and 50,720 test images, all with a label.
# data/nus_wide/
#   nus_wid_data.csv (filepath, label, split_name)
#   the images, at the paths of the table
_base_ = '_images_448.py'

dataset_type = 'mmml_losses.NUSWIDE'
data_root = 'data/nus_wide'
data_preprocessor = dict(num_classes=81)

train_dataloader = dict(
    dataset=dict(
        type=dataset_type,
        data_root=data_root,
        split='train',
        protocol='csv',
        data_prefix='',
    )
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
