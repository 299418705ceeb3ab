# Two-way with the temperatures of its paper, in buckets larger than its 128 samples: one anchor in hundreds is a
# positive one, and is to meet the background near other objects.
_base_ = '../../../_base_/losses/two_way.py'

loss = dict(bucket_size=4096)
