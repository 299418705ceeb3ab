# AN-LS of the LASD paper (Appendix A.2.2): with epsilon 0.1, which makes labels 0.95 and 0.05.
loss = dict(type='mmml_losses.LabelSmoothingBCELoss', epsilon=0.1, reading='paper')
