# "Focal" of the SPA paper (Tables 1, 3 and 4) is asymmetric (Eq. 7), and the paper does not print its powers. These are
# ours: 1 and 4, the defaults of ASL's released class, which without its shift is Eq. 7, with that code's constant
# focusing weights. docs/experiments.md ("The reduction of a recipe") compares them with others on a linear classifier.
loss = dict(type='mmml_losses.FocalLoss', gamma_positive=1.0, gamma_negative=4.0, detach_weight=True)
