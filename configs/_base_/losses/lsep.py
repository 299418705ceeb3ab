# LSEP (DR paper, Eq. 3 and Table 1).
loss = dict(type='mmml_losses.LSEPLoss', way='sample', gamma=1.0)
