# DR + DB Focal (DR paper, Table 1) with the values for VOC-LT; COCO-LT has others, see dr_db_focal_coco_lt.py. Both
# parts are sums, as Eq. 6 adds up the classes. Were one part a mean over classes and the other over labels, their
# proportion would depend on the batch size.
loss = dict(
    type='mmml_losses.SumLoss',
    losses=dict(
        dr=dict(type='mmml_losses.DRLoss', pair_scale=5.0, constraint_scale=7.0, reduction='sum'),
        db_focal=dict(type='mmml_losses.DBFocalLoss', mu=0.3, negative_scale=5.0, reduction='sum'),
    ),
)
