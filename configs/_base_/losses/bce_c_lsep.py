# BCE + C-LSEP (DR paper, Table 5, where C-LSEP has gamma 1).
# Both parts are sums, as Eq. 6 adds up the classes: means over classes and over labels would depend on the batch size
# in their proportion.
loss = dict(
    type='mmml_losses.SumLoss',
    losses=dict(
        bce=dict(type='mmml_losses.BCELoss', reduction='sum'),
        c_lsep=dict(type='mmml_losses.LSEPLoss', way='class', gamma=1.0, reduction='sum'),
    ),
)
