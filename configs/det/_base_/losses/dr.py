# DR with the scales of its paper, in buckets, so that the cost stays linear in the number of anchors.
_base_ = '../../../_base_/losses/dr.py'

loss = dict(bucket_size=4096)
