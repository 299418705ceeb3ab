# "ASL" of the LASD paper (Appendix A.2.2), which has no probability shift.
loss = dict(type='mmml_losses.AsymmetricLoss', gamma_positive=0.0, gamma_negative=4.0, margin=0.0)
