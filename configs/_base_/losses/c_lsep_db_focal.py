# C-LSEP + DB Focal (DR paper, Table 5, where C-LSEP has gamma 1), with the values of DB for VOC-LT. Both parts are
# sums, see dr_db_focal.py.
loss = dict(
    type='mmml_losses.SumLoss',
    losses=dict(
        c_lsep=dict(type='mmml_losses.LSEPLoss', way='class', gamma=1.0, reduction='sum'),
        db_focal=dict(type='mmml_losses.DBFocalLoss', mu=0.3, negative_scale=5.0, reduction='sum'),
    ),
)
