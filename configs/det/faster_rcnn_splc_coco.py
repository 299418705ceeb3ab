# Faster R-CNN with SPLC on COCO.
_base_ = ['_base_/faster_rcnn_coco.py', '../_base_/losses/splc.py']

model = dict(roi_head=dict(bbox_head=dict(loss_cls=_base_.loss)))
