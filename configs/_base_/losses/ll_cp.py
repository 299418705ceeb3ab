# LL-Cp, compared in the LASD paper (Table 2), which prints no value: permanently correcting 0.2 per cent of each batch,
# after the first epoch, is this package's default.
loss = dict(type='mmml_losses.LargeLossCorrection', relative_increase=0.002, permanent=True)
