# BCE + LPR of the SPA paper (Table 4). The paper does not print its lambda.
loss = dict(
    type='mmml_losses.SumLoss',
    losses=dict(
        bce=dict(type='mmml_losses.BCELoss'),
        lpr=dict(type='mmml_losses.LabelPairRegularizer', loss_weight=1.0),
    ),
)
