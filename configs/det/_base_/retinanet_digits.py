# RetinaNet for DigitScenes. Digits are 20 to 36 px high and narrower than that.
_base_ = 'resnet_fpn_digits.py'

model = dict(
    type='RetinaNet',
    bbox_head=dict(
        type='RetinaHead',
        num_classes=10,
        in_channels=64,
        stacked_convs=2,
        feat_channels=64,
        anchor_generator=dict(
            type='AnchorGenerator', octave_base_scale=2, scales_per_octave=2, ratios=[1.4], strides=[8, 16]
        ),
        bbox_coder=dict(type='DeltaXYWHBBoxCoder'),
        loss_cls=dict(use_sigmoid=True, loss_weight=0.25),  # as on COCO
        loss_bbox=dict(type='L1Loss'),
    ),
    train_cfg=dict(
        assigner=dict(type='MaxIoUAssigner', pos_iou_thr=0.5, neg_iou_thr=0.4, min_pos_iou=0, ignore_iof_thr=-1),
        sampler=dict(type='PseudoSampler'),
        allowed_border=-1,
        pos_weight=-1,
        debug=False,
    ),
    test_cfg=dict(
        nms_pre=300, min_bbox_size=0, score_thr=0.05, nms=dict(type='nms', iou_threshold=0.5), max_per_img=30
    ),
)
