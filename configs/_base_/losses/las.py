# LAS (LASD paper, Eq. 5): gamma+ 0, gamma- 4 (Appendix A.2.2), and unobserved labels weigh 1 / (C - 1) for C classes.
loss = dict(type='mmml_losses.LASLoss', gamma_positive=0.0, gamma_negative=4.0)
