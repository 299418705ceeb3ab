# Multi-similarity of logits (two-way paper, Eq. 20) at the best temperature of its Table 4a, which has 1, 2 and 4.
loss = dict(type='mmml_losses.MultiSimilarityLoss', positive_temperature=4.0)
