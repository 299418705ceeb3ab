# RetinaNet with Focal on digit scenes.
_base_ = ['_base_/retinanet_digits.py', '_base_/digits.py', '_base_/losses/focal.py']

model = dict(bbox_head=dict(loss_cls=dict(_base_.loss, loss_weight=1.0)))
