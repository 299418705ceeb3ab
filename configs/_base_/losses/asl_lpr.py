# ASY + LPR of the SPA paper (Table 4), which takes the released implementation (Section 5.1): the values of asl.py,
# with constant focusing weights. The paper does not print its lambda.
loss = dict(
    type='mmml_losses.SumLoss',
    losses=dict(
        asl=dict(
            type='mmml_losses.AsymmetricLoss', gamma_positive=0.0, gamma_negative=4.0, margin=0.05, detach_weight=True
        ),
        lpr=dict(type='mmml_losses.LabelPairRegularizer', loss_weight=1.0),
    ),
)
