# Focal margin of the Hill and SPLC paper (Table VII): margin 1 for positives, gamma 2 for both.
loss = dict(type='mmml_losses.FocalMarginLoss', margin=1.0, gamma=2.0)
