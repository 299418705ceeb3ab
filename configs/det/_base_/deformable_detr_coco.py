# Deformable DETR as MMDetection trains it on COCO: ResNet-50, 50 epochs, 16 GPUs with 2 images each.
_base_ = ['mmdet::deformable_detr/deformable-detr_r50_16xb2-50e_coco.py', 'plugin.py']

# The head computes scores and matching costs with the link of the loss. Here Focal has the weight 2 against the boxes,
# and alpha 0.25 for positives. A loss without alpha has their product as its weight.
model = dict(
    bbox_head=dict(
        type='mmml_losses.DeformableDETRHead', loss_cls=dict(_delete_=True, use_sigmoid=True, loss_weight=0.5)
    )
)

val_evaluator = [_base_.val_evaluator, dict(type='mmml_losses.DetectionCalibrationError')]
test_evaluator = val_evaluator
