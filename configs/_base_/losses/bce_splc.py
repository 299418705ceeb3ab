# BCE + SPLC of the Hill and SPLC paper (Table VII). Section IV-D chose the threshold for focal margin; the paper prints
# no other.
loss = dict(
    type='mmml_losses.SPLCLoss',
    positive='bce',
    negative='bce',
    threshold=0.6,
    change_epoch=1,
)
