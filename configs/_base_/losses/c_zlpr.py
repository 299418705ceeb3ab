# C-ZLPR, ZLPR over the samples of each class (DR paper, Table 3).
loss = dict(type='mmml_losses.ZLPRLoss', way='class')
