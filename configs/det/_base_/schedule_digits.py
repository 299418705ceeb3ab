# Two to three minutes on one CPU thread with a dense head. There is one validation, at the end.
optim_wrapper = dict(
    optimizer=dict(type='AdamW', lr=2e-3, weight_decay=0.02),
    clip_grad=dict(max_norm=35, norm_type=2),
)
param_scheduler = [
    dict(type='LinearLR', start_factor=0.05, by_epoch=True, begin=0, end=1, convert_to_iter_based=True),
    dict(type='CosineAnnealingLR', by_epoch=True, begin=1, convert_to_iter_based=True),
]
train_cfg = dict(by_epoch=True, max_epochs=5, val_interval=5)
val_cfg = dict()
test_cfg = dict()
auto_scale_lr = dict(enable=False, base_batch_size=16)
