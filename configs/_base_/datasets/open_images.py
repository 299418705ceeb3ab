# Open Images V6 with its 9,605 trainable classes: verified positives and negatives, all other labels unknown (-1).
# data/open_images/
#   oidv6-train-annotations-human-imagelabels.csv, test-annotations-human-imagelabels.csv
#   oidv6-classes-trainable.txt, oidv6-class-descriptions.csv
#   train/000002b66c9c498e.jpg, ...; test/
_base_ = '_images_448.py'

dataset_type = 'mmml_losses.OpenImages'
data_root = 'data/open_images'
data_preprocessor = dict(num_classes=9605)

train_dataloader = dict(
    dataset=dict(
        type=dataset_type,
        data_root=data_root,
        ann_file='oidv6-train-annotations-human-imagelabels.csv',
        classes_file='oidv6-classes-trainable.txt',
        descriptions_file='oidv6-class-descriptions.csv',
        data_prefix='train',
        skip_missing=True,  # many links have expired
    )
)
val_dataloader = dict(
    dataset=dict(
        type=dataset_type,
        data_root=data_root,
        ann_file='test-annotations-human-imagelabels.csv',
        classes_file='oidv6-classes-trainable.txt',
        descriptions_file='oidv6-class-descriptions.csv',
        data_prefix='test',
        skip_missing=True,
    )
)
test_dataloader = val_dataloader
