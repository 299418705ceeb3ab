# Weak assume-negative: negatives weigh 1 / (C - 1) for C classes (LASD paper, Appendix A.2.2).
loss = dict(type='mmml_losses.WANLoss')
