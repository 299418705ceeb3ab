# FCOS with Hill on COCO.
_base_ = ['_base_/fcos_coco.py', '../_base_/losses/hill.py']

model = dict(bbox_head=dict(loss_cls=_base_.loss))
