# The backbone of two_way_imagenet.py, which does not learn, under a new linear classifier.
_base_ = 'resnet50.py'

model = dict(
    backbone=dict(
        frozen_stages=4,
        norm_eval=True,
        init_cfg=dict(checkpoint='work_dirs/two_way_imagenet/epoch_90.pth'),
    ),
)
