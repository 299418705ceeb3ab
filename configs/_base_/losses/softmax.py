# Softmax of normalised labels (two-way paper, Eq. 18 and Table 7), for each sample. Table 3b also has the ways 'class'
# and 'both', in buckets of 128 samples.
loss = dict(type='mmml_losses.SoftmaxLoss', way='sample', bucket_size=128)
