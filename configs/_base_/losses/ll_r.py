# LL-R, compared in the LASD paper (Table 2), which prints no value: rejecting 0.2 per cent more labels in each epoch is
# this package's default.
loss = dict(type='mmml_losses.LargeLossRejection', relative_increase=0.002)
