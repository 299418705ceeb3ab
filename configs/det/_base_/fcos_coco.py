# FCOS as MMDetection trains it on COCO: ResNet-50, 12 epochs, 8 GPUs with 2 images each.
_base_ = ['mmdet::fcos/fcos_r50-caffe_fpn_gn-head_1x_coco.py', 'plugin.py']

# Here Focal has alpha 0.25 for positives. A loss without alpha has 0.25 as its weight against the boxes.
model = dict(bbox_head=dict(loss_cls=dict(_delete_=True, use_sigmoid=True, loss_weight=0.25)))

val_evaluator = [_base_.val_evaluator, dict(type='mmml_losses.DetectionCalibrationError')]
test_evaluator = val_evaluator
