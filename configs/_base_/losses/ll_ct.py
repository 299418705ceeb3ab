# LL-Ct, compared in the LASD paper (Table 2), which prints no value: 0.2 per cent more labels corrected each epoch is
# this package's default.
loss = dict(type='mmml_losses.LargeLossCorrection', relative_increase=0.002, permanent=False)
