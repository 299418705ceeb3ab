# ATSS with SPLC on COCO.
_base_ = ['_base_/atss_coco.py', '../_base_/losses/splc.py']

model = dict(bbox_head=dict(loss_cls=_base_.loss))
