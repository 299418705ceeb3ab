# ASL-PS of the LASD paper (Appendix A.2.2): ASL in every other paper, with a probability shift of 0.05.
loss = dict(type='mmml_losses.AsymmetricLoss', gamma_positive=0.0, gamma_negative=4.0, margin=0.05)
