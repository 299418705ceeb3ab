# Binary cross-entropy. With unobserved labels given as 0 it is the assume-negative loss, AN.
loss = dict(type='mmml_losses.BCELoss')
