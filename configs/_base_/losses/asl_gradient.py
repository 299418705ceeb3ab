# ASL as its formula (Ridnik et al., Eq. 7): the values of asl.py, and a gradient through the focusing weights.
loss = dict(type='mmml_losses.AsymmetricLoss', gamma_positive=0.0, gamma_negative=4.0, margin=0.05)
