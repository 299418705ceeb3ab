# EM + APL, compared in the LASD paper (Table 2), which prints no values: these are this package's defaults. It needs a
# training of more than 5 epochs.
loss = dict(type='mmml_losses.EMAPLLoss', alpha=0.2, beta=0.4, negative_share=0.9, warmup_epochs=5)
