# Faster R-CNN for DigitScenes.
_base_ = 'resnet_fpn_digits.py'

model = dict(
    type='FasterRCNN',
    rpn_head=dict(
        type='RPNHead',
        in_channels=64,
        feat_channels=64,
        anchor_generator=dict(type='AnchorGenerator', scales=[2.0, 2.8], ratios=[1.4], strides=[8, 16]),
        bbox_coder=dict(type='DeltaXYWHBBoxCoder'),
        loss_cls=dict(type='CrossEntropyLoss', use_sigmoid=True),
        loss_bbox=dict(type='L1Loss'),
    ),
    roi_head=dict(
        type='StandardRoIHead',
        bbox_roi_extractor=dict(
            type='SingleRoIExtractor',
            roi_layer=dict(type='RoIAlign', output_size=5, sampling_ratio=0),
            out_channels=64,
            featmap_strides=[8, 16],
            finest_scale=24,
        ),
        bbox_head=dict(
            type='Shared2FCBBoxHead',
            in_channels=64,
            fc_out_channels=128,
            roi_feat_size=5,
            num_classes=10,
            bbox_coder=dict(type='DeltaXYWHBBoxCoder', target_stds=[0.1, 0.1, 0.2, 0.2]),
            reg_class_agnostic=True,
            loss_cls=dict(use_sigmoid=True),
            loss_bbox=dict(type='L1Loss'),
        ),
    ),
    train_cfg=dict(
        rpn=dict(
            assigner=dict(type='MaxIoUAssigner', pos_iou_thr=0.6, neg_iou_thr=0.3, min_pos_iou=0.3),
            sampler=dict(type='RandomSampler', num=64, pos_fraction=0.5, add_gt_as_proposals=False),
            allowed_border=-1,
            pos_weight=-1,
            debug=False,
        ),
        rpn_proposal=dict(nms_pre=200, max_per_img=100, nms=dict(type='nms', iou_threshold=0.7), min_bbox_size=0),
        rcnn=dict(
            assigner=dict(
                type='MaxIoUAssigner', pos_iou_thr=0.5, neg_iou_thr=0.5, min_pos_iou=0.5, match_low_quality=False
            ),
            sampler=dict(type='RandomSampler', num=64, pos_fraction=0.25),
            pos_weight=-1,
            debug=False,
        ),
    ),
    test_cfg=dict(
        rpn=dict(nms_pre=200, max_per_img=50, nms=dict(type='nms', iou_threshold=0.7), min_bbox_size=0),
        rcnn=dict(score_thr=0.05, nms=dict(type='nms', iou_threshold=0.5), max_per_img=30),
    ),
)
