# BCE + C-LSEP (DR paper, Table 5, where C-LSEP has gamma 1). Both parts are sums, see dr_db_focal.py.
loss = dict(
    type='mmml_losses.SumLoss',
    losses=dict(
        bce=dict(type='mmml_losses.BCELoss', reduction='sum'),
        c_lsep=dict(type='mmml_losses.LSEPLoss', way='class', gamma=1.0, reduction='sum'),
    ),
)
