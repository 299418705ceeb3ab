# Two-way with the temperatures of its paper, in buckets larger than its 128 samples: one anchor in hundreds is
# positive, and is compared with the background near other objects, too. Alone it determines the order of the scores and
# not their size, and trains nothing where a bucket has no object. BCE makes the scores probabilities everywhere. Focal
# would not: its scores are too low where it is sure and too high where it is not.
_base_ = '../../../_base_/losses/two_way.py'

loss = dict(
    _delete_=True,
    type='mmml_losses.SumLoss',
    losses=dict(bce=dict(type='mmml_losses.BCELoss'), two_way=dict(_base_.loss, bucket_size=4096)),
)
