# C-LSEP, LSEP over the samples of each class (DR paper, Eq. 7), with the gamma of Table 2; Table 5 has 1.
loss = dict(type='mmml_losses.LSEPLoss', way='class', gamma=5.0)
