# EM, compared in the LASD paper (Table 2), which prints no value: alpha is this package's default.
loss = dict(type='mmml_losses.EMLoss', alpha=0.2)
