loss = dict(type='mmml_losses.BCELoss')
