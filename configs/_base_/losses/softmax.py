# Softmax of normalised labels (two-way paper, Eq. 18 and Table 7), over the classes of each sample. Table 3b also has
# way='class' and way='both', in buckets of 128 samples.
loss = dict(type='mmml_losses.SoftmaxLoss', way='sample', bucket_size=128)
