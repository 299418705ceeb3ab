# "BCE" of the two-way paper (Table 7): weighted by the class frequencies, which are counted in the training set. The
# paper prints no weights; what this loss weighs is said in its docstring.
loss = dict(type='mmml_losses.WeightedBCELoss')
