# Faster R-CNN as MMDetection trains it on COCO: ResNet-50, 12 epochs, 8 GPUs with 2 images each.
_base_ = ['mmdet::faster_rcnn/faster-rcnn_r50_fpn_1x_coco.py', 'plugin.py']

# The RoI head begins with a probability of 0.01 for every class, as dense heads do: from 0.5, the negatives of sigmoids
# would outweigh all else. The rest is how MMDetection begins.
model = dict(
    roi_head=dict(
        bbox_head=dict(
            loss_cls=dict(_delete_=True, use_sigmoid=True),
            init_cfg=[
                dict(type='Normal', std=0.01, bias_prob=0.01, override=dict(name='fc_cls')),
                dict(type='Normal', std=0.001, override=dict(name='fc_reg')),
                dict(type='Xavier', distribution='uniform', override=dict(name='shared_fcs')),
            ],
        )
    )
)

val_evaluator = [_base_.val_evaluator, dict(type='mmml_losses.DetectionCalibrationError')]
test_evaluator = val_evaluator
