# ASL + SPLC of the Hill and SPLC paper (Table VII), with the constant focusing weights of the ASL in its authors' code
# (AsymmetricLoss in src/loss_functions/losses.py). Section IV-D chose the threshold for focal margin; the paper prints
# no other.
loss = dict(
    type='mmml_losses.SPLCLoss',
    positive='bce',
    negative=dict(type='asymmetric', gamma=4.0, margin=0.05, detach_weight=True),
    threshold=0.6,
    change_epoch=1,
)
