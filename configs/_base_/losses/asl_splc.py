# ASL + SPLC of the Hill and SPLC paper (Table VII). Section IV-D chose the threshold for focal margin; the paper prints
# no other.
loss = dict(
    type='mmml_losses.SPLCLoss',
    positive='bce',
    negative=dict(type='asymmetric', gamma=4.0, margin=0.05),
    threshold=0.6,
    change_epoch=1,
)
