# "Focal" of the Hill and SPLC paper (Tables III to V, VII, IX) as its authors' code trains it: gamma 2 (train.py), and
# focusing weights that are constants for the gradient (AsymmetricLoss in src/loss_functions/losses.py).
loss = dict(type='mmml_losses.FocalLoss', gamma=2.0, detach_weight=True)
