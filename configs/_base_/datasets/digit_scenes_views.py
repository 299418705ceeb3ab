# DigitScenes with three views of each training scene, two of them randomly augmented, for consistency between views
# (LASD paper, Eq. 7). Two views in all are [[], augmentation]. Test scenes have one view.
_base_ = 'digit_scenes.py'

data_preprocessor = dict(type='mmml_losses.MultiLabelPreprocessor')

# Nothing that could remove a digit or add one: all views have the labels of the scene.
augmentation = [
    dict(type='RandomCrop', crop_size=64, padding=3, padding_mode='edge'),
    dict(type='ColorJitter', brightness=0.3, contrast=0.3),
]
train_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='mmml_losses.PackViews', views=[[], augmentation, augmentation]),
]

train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
