# FCOS with Hill on digit scenes.
_base_ = ['_base_/fcos_digits.py', '_base_/digits.py', '../_base_/losses/hill.py']

model = dict(bbox_head=dict(loss_cls=_base_.loss))
