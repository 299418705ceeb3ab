# Two-way (Eq. 17): T 4 for positives and 1 for negatives (Section 4.2, Table 1), compared in buckets of 128 samples
# (Table 5) whatever the batch size. The rows of Tables 1 to 4 are other values of its arguments, such as `way`.
loss = dict(
    type='mmml_losses.TwoWayLoss',
    way='both',
    positive_temperature=4.0,
    negative_temperature=1.0,
    bucket_size=128,
)
