# Images as the code of the Hill and SPLC paper has them (train.py of xinyu1205/robust-loss-mlml); the paper states the
# size alone. Half of each side is cut out, then come two operations of RandAugment, each with a probability of one half
# and a magnitude that is drawn uniformly: RandAugment() of the package randaugment. Its magnitudes are nine levels, its
# rotations go one way, and the code fills the cut-out with a random colour; here magnitudes are continuous, rotations
# go both ways, and the cut-out is grey.
hill_operations = [
    dict(type='Invert', prob=0.5),
    dict(type='Cutout', magnitude_range=(0, 20), prob=0.5),
    dict(type='Sharpness', magnitude_range=(0, 0.9), prob=0.5),
    dict(type='AutoContrast', prob=0.5),
    dict(type='Posterize', magnitude_range=(8, 4), prob=0.5),
    dict(type='Shear', magnitude_range=(0, 0.3), direction='horizontal', prob=0.5),
    dict(type='Shear', magnitude_range=(0, 0.3), direction='vertical', prob=0.5),
    dict(type='Translate', magnitude_range=(0, 150 / 331), direction='horizontal', prob=0.5),
    dict(type='Translate', magnitude_range=(0, 150 / 331), direction='vertical', prob=0.5),
    dict(type='Rotate', magnitude_range=(0, 30), prob=0.5),
    dict(type='Equalize', prob=0.5),
    dict(type='Contrast', magnitude_range=(0, 0.9), prob=0.5),
    dict(type='ColorTransform', magnitude_range=(0, 0.9), prob=0.5),
    dict(type='Solarize', magnitude_range=(256, 0), prob=0.5),
    dict(type='Brightness', magnitude_range=(0, 0.9), prob=0.5),
]
hill_train_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='Resize', scale=(448, 448)),
    dict(type='Cutout', shape=224, prob=1.0),
    dict(
        type='RandAugment',
        policies=hill_operations,
        num_policies=2,
        magnitude_level=10,
        total_level=10,
        magnitude_std='inf',  # uniform up to the level
    ),
    dict(type='PackInputs'),
]
# The code divides pixels by 255 and normalises no further.
hill_pixels = dict(mean=[0.0, 0.0, 0.0], std=[255.0, 255.0, 255.0])
hill_metrics = [
    dict(type='mmml_losses.MultiLabelAP'),
    dict(type='mmml_losses.CalibrationError'),
    dict(type='mmml_losses.MultiLabelF1'),
]
