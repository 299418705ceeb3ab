# Faster R-CNN with SPA on digit scenes.
_base_ = ['_base_/faster_rcnn_digits.py', '_base_/digits.py', '../_base_/losses/spa.py']

model = dict(roi_head=dict(bbox_head=dict(loss_cls=_base_.loss)))
