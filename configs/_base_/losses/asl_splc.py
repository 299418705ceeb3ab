# ASL + SPLC of the Hill and SPLC paper (Table VII). The threshold is that of Section IV-D, which chose it for focal
# margin; the paper prints no other.
loss = dict(
    type='mmml_losses.SPLCLoss',
    positive='bce',
    negative=dict(type='asymmetric', gamma=4.0, margin=0.05),
    threshold=0.6,
    change_epoch=1,
)
