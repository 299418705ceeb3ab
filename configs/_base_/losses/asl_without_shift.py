# "ASL" of the LASD paper (Appendix A.2.2), which has no probability shift. The gradient is that of the printed formula,
# see asl_ps.py.
loss = dict(type='mmml_losses.AsymmetricLoss', gamma_positive=0.0, gamma_negative=4.0, margin=0.0)
