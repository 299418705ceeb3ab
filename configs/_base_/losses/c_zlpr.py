# C-ZLPR, ZLPR along the classes (DR paper, Table 3).
loss = dict(type='mmml_losses.ZLPRLoss', way='class')
