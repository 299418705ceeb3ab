# Deformable DETR with two-way on COCO.
_base_ = ['_base_/deformable_detr_coco.py', '_base_/losses/two_way.py']

model = dict(bbox_head=dict(loss_cls=_base_.loss))
