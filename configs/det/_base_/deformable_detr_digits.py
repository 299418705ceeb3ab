# Deformable DETR for DigitScenes, small, with refined boxes.
_base_ = 'resnet_fpn_digits.py'

model = dict(
    type='DeformableDETR',
    num_queries=20,
    num_feature_levels=2,
    with_box_refine=True,
    as_two_stage=False,
    neck=dict(
        _delete_=True,
        type='ChannelMapper',
        in_channels=[64, 128],
        kernel_size=1,
        out_channels=64,
        act_cfg=None,
        norm_cfg=dict(type='GN', num_groups=16),
        num_outs=2,
    ),
    encoder=dict(
        num_layers=1,
        layer_cfg=dict(
            self_attn_cfg=dict(embed_dims=64, num_levels=2, num_heads=4, batch_first=True),
            ffn_cfg=dict(embed_dims=64, feedforward_channels=128, ffn_drop=0.0),
        ),
    ),
    decoder=dict(
        num_layers=2,
        return_intermediate=True,
        layer_cfg=dict(
            self_attn_cfg=dict(embed_dims=64, num_heads=4, batch_first=True),
            cross_attn_cfg=dict(embed_dims=64, num_levels=2, num_heads=4, batch_first=True),
            ffn_cfg=dict(embed_dims=64, feedforward_channels=128, ffn_drop=0.0),
        ),
        post_norm_cfg=None,
    ),
    positional_encoding=dict(num_feats=32, normalize=True, offset=-0.5),
    bbox_head=dict(
        type='mmml_losses.DeformableDETRHead',
        num_classes=10,
        embed_dims=64,
        sync_cls_avg_factor=True,
        loss_cls=dict(use_sigmoid=True, loss_weight=0.5),  # as on COCO
        loss_bbox=dict(type='L1Loss', loss_weight=5.0),
        loss_iou=dict(type='GIoULoss', loss_weight=2.0),
    ),
    train_cfg=dict(
        assigner=dict(
            type='HungarianAssigner',
            match_costs=[
                dict(type='FocalLossCost', weight=2.0),
                dict(type='BBoxL1Cost', weight=5.0, box_format='xywh'),
                dict(type='IoUCost', iou_mode='giou', weight=2.0),
            ],
        )
    ),
    test_cfg=dict(max_per_img=20),
)
