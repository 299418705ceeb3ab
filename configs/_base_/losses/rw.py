# RW (DR paper, Section 4.2; "RM" in its Table 1): BCE weighted by the inverse square root of the class frequency,
# counted in the training set.
loss = dict(type='mmml_losses.ReweightedBCELoss', mode='inverse_sqrt')
