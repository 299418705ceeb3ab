# LDAM over BCE (DR paper, Table 1), with frequencies counted in the training set. The paper prints no margin: 0.5 for
# the rarest class is LDAM's own.
loss = dict(type='mmml_losses.LDAMLoss', max_margin=0.5)
