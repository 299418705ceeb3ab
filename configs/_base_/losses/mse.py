# MSE- of the Hill and SPLC paper (Table VI): squared error for negatives, BCE for positives.
loss = dict(type='mmml_losses.MSENegativeLoss')
