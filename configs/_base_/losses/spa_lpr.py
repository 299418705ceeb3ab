# Eq. 21 of the SPA paper: the mean of SPA over the labels plus lambda times LPR. The paper does not print its lambda.
loss = dict(
    type='mmml_losses.SumLoss',
    losses=dict(
        spa=dict(type='mmml_losses.SPALoss'),
        lpr=dict(type='mmml_losses.LabelPairRegularizer', loss_weight=1.0),
    ),
)
