# LL-Ct, compared in the LASD paper (Table 2), which prints no value: correcting 0.2 per cent more labels in each epoch
# is this package's default.
loss = dict(type='mmml_losses.LargeLossCorrection', relative_increase=0.002, permanent=False)
