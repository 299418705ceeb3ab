# Section 5.1 of the SPA paper: (1, 1, 0, 5, 3, 1) for all its datasets.
loss = dict(
    type='mmml_losses.SPALoss',
    positive_scale=1.0,
    positive_slope=1.0,
    positive_shift=0.0,
    negative_scale=5.0,
    negative_slope=3.0,
    negative_shift=1.0,
)
