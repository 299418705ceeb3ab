# COCO 2014 with one label per image, and three views of each training image, two of them randomly augmented.
_base_ = ['coco_single.py', '_views.py']

data_preprocessor = dict(type='mmml_losses.MultiLabelPreprocessor')
train_pipeline = [
    *_base_.train_pipeline[:2],  # load and resize
    dict(type='mmml_losses.PackViews', views=[[], _base_.augmentation, _base_.augmentation]),
]
train_dataloader = dict(dataset=dict(dataset=dict(pipeline=train_pipeline)))
