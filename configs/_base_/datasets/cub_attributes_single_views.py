# CUB-200-2011 with one attribute an image, and two random augmentations beside each training image (LASD paper,
# Eq. 7). The paper does not say what its augmentations are.
_base_ = 'cub_attributes_single.py'

data_preprocessor = dict(type='mmml_losses.MultiLabelPreprocessor')

# The whole image, as without views: a crop could lose an object and keep its label.
augmentation = [
    dict(type='RandomFlip', prob=0.5, direction='horizontal'),
    dict(type='ColorJitter', brightness=0.4, contrast=0.4, saturation=0.4),
]
train_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='Resize', scale=(448, 448)),
    dict(type='mmml_losses.PackViews', views=[[], augmentation, augmentation]),
]

train_dataloader = dict(dataset=dict(dataset=dict(pipeline=train_pipeline)))
