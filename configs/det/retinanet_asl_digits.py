# RetinaNet with ASL on digit scenes.
_base_ = ['_base_/retinanet_digits.py', '_base_/digits.py', '_base_/losses/asl.py']

model = dict(bbox_head=dict(loss_cls=_base_.loss))
