# ATSS for DigitScenes.
_base_ = 'resnet_fpn_digits.py'

model = dict(
    type='ATSS',
    bbox_head=dict(
        type='ATSSHead',
        num_classes=10,
        in_channels=64,
        stacked_convs=2,
        feat_channels=64,
        anchor_generator=dict(
            type='AnchorGenerator', ratios=[1.4], octave_base_scale=2, scales_per_octave=1, strides=[8, 16]
        ),
        bbox_coder=dict(type='DeltaXYWHBBoxCoder', target_stds=[0.1, 0.1, 0.2, 0.2]),
        norm_cfg=dict(type='GN', num_groups=16),
        loss_cls=dict(use_sigmoid=True, loss_weight=0.25),  # as on COCO
        loss_bbox=dict(type='GIoULoss', loss_weight=2.0),
        loss_centerness=dict(type='CrossEntropyLoss', use_sigmoid=True),
    ),
    train_cfg=dict(assigner=dict(type='ATSSAssigner', topk=9), allowed_border=-1, pos_weight=-1, debug=False),
    test_cfg=dict(
        nms_pre=300, min_bbox_size=0, score_thr=0.05, nms=dict(type='nms', iou_threshold=0.6), max_per_img=30
    ),
)
