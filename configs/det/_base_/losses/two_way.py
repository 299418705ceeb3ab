# Two-way with the temperatures of its paper, in buckets larger than its 128 samples: one anchor in hundreds is a
# positive one, and is to meet the background near other objects. Alone it fixes the order of scores and not their
# height, and trains nothing where a bucket has no object; BCE makes them probabilities, everywhere. BCE and not Focal,
# whose scores are too low where it is sure and too high where it is not.
_base_ = '../../../_base_/losses/two_way.py'

loss = dict(
    _delete_=True,
    type='mmml_losses.SumLoss',
    losses=dict(bce=dict(type='mmml_losses.BCELoss'), two_way=dict(_base_.loss, bucket_size=4096)),
)
