# The random augmentation of the two further views of each training image, for consistency between views (LASD paper,
# Eq. 7). Two views in all are [[], augmentation]. The paper does not state its augmentations; these are ours.
# Nothing is cropped: a crop could lose an object and keep its label.
augmentation = [
    dict(type='RandomFlip', prob=0.5, direction='horizontal'),
    dict(type='ColorJitter', brightness=0.4, contrast=0.4, saturation=0.4),
]
