# RetinaNet with ASL on COCO.
_base_ = ['_base_/retinanet_coco.py', '_base_/losses/asl.py']

model = dict(bbox_head=dict(loss_cls=_base_.loss))
