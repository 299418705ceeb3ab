# gamma+ 0, gamma- 4, m 0.05, with focusing weights that are constants for the gradient: as its authors train (train.py
# of their code, disable_torch_grad_focal_loss=True). The two-way paper (Section 4.3) has these values, too.
# asl_gradient.py has the gradient of the formula.
loss = dict(type='mmml_losses.AsymmetricLoss', gamma_positive=0.0, gamma_negative=4.0, margin=0.05, detach_weight=True)
