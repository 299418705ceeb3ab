# CB Focal (DR paper, Table 1), with frequencies counted in the training set. The paper prints no values: beta 0.9,
# gamma 2 and balance 2 are from the public code of DB.
loss = dict(type='mmml_losses.CBFocalLoss', beta=0.9, gamma=2.0, balance=2.0)
