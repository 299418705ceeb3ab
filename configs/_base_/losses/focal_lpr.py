# Focal + LPR of the SPA paper (Table 4). The paper does not print its lambda.
loss = dict(
    type='mmml_losses.SumLoss',
    losses=dict(
        focal=dict(type='mmml_losses.FocalLoss', gamma=2.0),
        lpr=dict(type='mmml_losses.LabelPairRegularizer', loss_weight=1.0),
    ),
)
