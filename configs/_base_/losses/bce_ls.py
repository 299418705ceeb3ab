# BCE-LS of the Hill and SPLC paper (Table III): labels move to 0.9 and 0.1, as in the public code of AN-LS.
loss = dict(type='mmml_losses.LabelSmoothingBCELoss', epsilon=0.1, reading='code')
