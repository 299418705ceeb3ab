# DR (Eq. 8): gamma 1 is 5, and gamma 2 is 7 for VOC-LT and 10 for COCO-LT (Table 2). Table 4 is `constraint`: None is
# C-LSEP, 'positive' PGC, 'negative' NGC (the paper's own), 'both' GC.
loss = dict(type='mmml_losses.DRLoss', pair_scale=5.0, constraint_scale=7.0, constraint='negative')
