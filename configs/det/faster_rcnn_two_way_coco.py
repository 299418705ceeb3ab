# Faster R-CNN with two-way on COCO.
_base_ = ['_base_/faster_rcnn_coco.py', '_base_/losses/two_way.py']

model = dict(roi_head=dict(bbox_head=dict(loss_cls=_base_.loss)))
