# Focal margin + SPLC: threshold 0.6, correction from the second epoch on, margin 1 (Section IV-D, Table VIII).
loss = dict(
    type='mmml_losses.SPLCLoss',
    positive=dict(type='focal_margin', margin=1.0, gamma=2.0),
    negative=dict(type='focal', gamma=2.0),
    threshold=0.6,
    change_epoch=1,
)
