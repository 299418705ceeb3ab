# RetinaNet with Focal on digit scenes of which half of the boxes are hidden.
_base_ = ['_base_/retinanet_digits.py', '_base_/digits_50.py', '_base_/losses/focal.py']

model = dict(bbox_head=dict(loss_cls=dict(_base_.loss, loss_weight=1.0)))
