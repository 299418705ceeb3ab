# DB Focal (DR paper, Table 1), with frequencies counted in the training set and DB's published values for VOC-LT; for
# COCO-LT mu is 0.2 and negative_scale 2, see db_focal_coco_lt.py.
loss = dict(
    type='mmml_losses.DBFocalLoss',
    alpha=0.1,
    beta=10.0,
    mu=0.3,
    negative_scale=5.0,
    kappa=0.05,
    gamma=2.0,
    balance=2.0,
)
