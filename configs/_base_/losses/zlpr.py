# ZLPR (DR paper, Eq. 4 and Table 1).
loss = dict(type='mmml_losses.ZLPRLoss', way='sample')
