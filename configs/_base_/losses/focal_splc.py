# Focal + SPLC of the Hill and SPLC paper (Table VII). Section IV-D chose the threshold for focal margin; the paper
# prints no other.
loss = dict(
    type='mmml_losses.SPLCLoss',
    positive=dict(type='focal', gamma=2.0),
    negative=dict(type='focal', gamma=2.0),
    threshold=0.6,
    change_epoch=1,
)
