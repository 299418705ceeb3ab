# gamma+ 0, gamma- 4, m 0.05: the values that its authors and the two-way paper (Section 4.3) trained with.
loss = dict(type='mmml_losses.AsymmetricLoss', gamma_positive=0.0, gamma_negative=4.0, margin=0.05)
