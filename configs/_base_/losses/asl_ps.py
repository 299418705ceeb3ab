# ASL-PS of the LASD paper (Appendix A.2.2): ASL in every other paper, with a probability shift of 0.05. The gradient is
# that of the printed formula, as of LAS and LASD, whose special case it is (Section 5.3). Whether the paper's runs held
# the focusing weights constant it does not say: detach_weight=True does, as ASL's released code.
loss = dict(type='mmml_losses.AsymmetricLoss', gamma_positive=0.0, gamma_negative=4.0, margin=0.05)
