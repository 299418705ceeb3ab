# Circle (DR paper, Table 1), which prints none of its values: gamma 80 and margin 0.4 are the values of Circle's
# authors for retrieval. The similarity is the sigmoid of a logit.
loss = dict(type='mmml_losses.CircleLoss', gamma=80.0, margin=0.4, similarity='sigmoid')
