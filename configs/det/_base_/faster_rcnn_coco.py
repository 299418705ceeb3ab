# Faster R-CNN as MMDetection trains it on COCO: ResNet-50, 12 epochs, 8 GPUs with 2 images each.
_base_ = ['mmdet::faster_rcnn/faster-rcnn_r50_fpn_1x_coco.py', 'plugin.py']

model = dict(roi_head=dict(bbox_head=dict(loss_cls=dict(_delete_=True, use_sigmoid=True))))

val_evaluator = [_base_.val_evaluator, dict(type='mmml_losses.DetectionCalibrationError')]
test_evaluator = val_evaluator
