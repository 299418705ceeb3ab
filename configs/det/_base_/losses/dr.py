# BCE + DR (DR paper, Table 5) with the scales of DR's own file, in buckets, so that the cost stays linear in the number
# of anchors. Alone, DR trains on the hardest few of thousands of anchors, does not fix the scores of positives, and
# leaves the background at a probability of 0.1: RetinaNet learnt hardly any digit with it. BCE makes the scores
# probabilities.
_base_ = '../../../_base_/losses/dr.py'

loss = dict(
    _delete_=True,
    type='mmml_losses.SumLoss',
    losses=dict(bce=dict(type='mmml_losses.BCELoss'), dr=dict(_base_.loss, bucket_size=4096)),
)
