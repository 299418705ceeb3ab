# Hill: lambda 1.5 (Section III-C), margin 1 (Section IV-D, Table VIII), gamma 2 (Section III-E) for all datasets.
loss = dict(type='mmml_losses.HillLoss', lamb=1.5, margin=1.0, gamma=2.0)
