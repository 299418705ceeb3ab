# gamma 2 and alpha 0.25, as RetinaNet has them.
loss = dict(type='mmml_losses.FocalLoss', gamma=2.0, alpha=0.25)
