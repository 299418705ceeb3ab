# The defaults are the paper's hyper-parameters for all its datasets.
loss = dict(type='mmml_losses.SPALoss')
