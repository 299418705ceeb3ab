# RetinaNet with LL-R on digit scenes of which half of the boxes are hidden.
_base_ = ['_base_/retinanet_digits.py', '_base_/digits_50.py', '_base_/losses/ll_r.py']

model = dict(bbox_head=dict(loss_cls=_base_.loss))
