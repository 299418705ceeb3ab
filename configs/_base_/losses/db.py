# DB over BCE, with frequencies counted in the training set and DB's published values for VOC-LT; for COCO-LT mu is 0.2
# and negative_scale 2.
loss = dict(
    type='mmml_losses.DBLoss',
    alpha=0.1,
    beta=10.0,
    mu=0.3,
    negative_scale=5.0,
    kappa=0.05,
)
