# Three stages of a ResNet-18 at half the usual width, with maps of 12 x 12 and 6 x 6 cells for scenes of 96 px.
model = dict(
    data_preprocessor=dict(type='DetDataPreprocessor', mean=[80.0] * 3, std=[60.0] * 3, pad_size_divisor=16),
    backbone=dict(
        type='ResNet',
        depth=18,
        stem_channels=16,
        base_channels=32,
        num_stages=3,
        strides=(1, 2, 2),
        dilations=(1, 1, 1),
        out_indices=(1, 2),
        norm_eval=False,
        zero_init_residual=False,
    ),
    neck=dict(type='FPN', in_channels=[64, 128], out_channels=64, num_outs=2),
)
