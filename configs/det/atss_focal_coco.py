# ATSS with Focal on COCO.
_base_ = ['_base_/atss_coco.py', '_base_/losses/focal.py']

model = dict(bbox_head=dict(loss_cls=dict(_base_.loss, loss_weight=1.0)))
