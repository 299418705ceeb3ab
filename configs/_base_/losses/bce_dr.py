# BCE + DR (DR paper, Table 5) with gamma 2 of VOC-LT. Both parts are sums, see dr_db_focal.py.
loss = dict(
    type='mmml_losses.SumLoss',
    losses=dict(
        bce=dict(type='mmml_losses.BCELoss', reduction='sum'),
        dr=dict(type='mmml_losses.DRLoss', pair_scale=5.0, constraint_scale=7.0, reduction='sum'),
    ),
)
