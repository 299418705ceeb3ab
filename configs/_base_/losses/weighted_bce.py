# "BCE" of the two-way paper (Table 7): weighted by the class frequencies, which are counted in the training set. The
# paper prints no weights; the docstring of this loss defines them.
loss = dict(type='mmml_losses.WeightedBCELoss')
