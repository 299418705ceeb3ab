# EM + APL, compared in the LASD paper (Table 2), which prints no values: these are those of its authors for VOC12
# (train.py of SPML-AckTheUnknown). Theirs for the other datasets are in configs/papers/lasd.md. The training must have
# more epochs than the warm-up.
loss = dict(type='mmml_losses.EMAPLLoss', alpha=0.2, beta=0.02, negative_share=0.9, warmup_epochs=5)
