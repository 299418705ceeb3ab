# RetinaNet with SPA on COCO.
_base_ = ['_base_/retinanet_coco.py', '../_base_/losses/spa.py']

model = dict(bbox_head=dict(loss_cls=_base_.loss))
