# ATSS with SPA on digit scenes.
_base_ = ['_base_/atss_digits.py', '_base_/digits.py', '../_base_/losses/spa.py']

model = dict(bbox_head=dict(loss_cls=_base_.loss))
