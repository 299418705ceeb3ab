# Focal + LPR of the SPA paper (Table 4), with the Focal of focal_asymmetric.py, whose powers are ours. The paper does
# not print its lambda.
loss = dict(
    type='mmml_losses.SumLoss',
    losses=dict(
        focal=dict(type='mmml_losses.FocalLoss', gamma_positive=1.0, gamma_negative=4.0, detach_weight=True),
        lpr=dict(type='mmml_losses.LabelPairRegularizer', loss_weight=1.0),
    ),
)
