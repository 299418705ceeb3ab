# FCOS for DigitScenes.
_base_ = 'resnet_fpn_digits.py'

model = dict(
    type='FCOS',
    bbox_head=dict(
        type='FCOSHead',
        num_classes=10,
        in_channels=64,
        stacked_convs=2,
        feat_channels=64,
        strides=[8, 16],
        regress_ranges=((-1, 14), (14, 1e8)),
        center_sampling=True,
        norm_on_bbox=True,
        norm_cfg=dict(type='GN', num_groups=16),
        loss_cls=dict(use_sigmoid=True, loss_weight=0.25),  # as on COCO
        loss_bbox=dict(type='GIoULoss'),
        loss_centerness=dict(type='CrossEntropyLoss', use_sigmoid=True),
    ),
    test_cfg=dict(
        nms_pre=300, min_bbox_size=0, score_thr=0.05, nms=dict(type='nms', iou_threshold=0.5), max_per_img=30
    ),
)
