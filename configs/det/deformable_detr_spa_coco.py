# Deformable DETR with SPA on COCO.
_base_ = ['_base_/deformable_detr_coco.py', '../_base_/losses/spa.py']

model = dict(bbox_head=dict(loss_cls=_base_.loss))
