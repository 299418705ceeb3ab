# About two and a half minutes on one CPU thread.
loss_reduction = 'labelmean'  # AdamW does not mind the scale of a loss; one for all losses compares their logs
optim_wrapper = dict(optimizer=dict(type='AdamW', lr=4e-3, weight_decay=0.02))
param_scheduler = [
    dict(type='LinearLR', start_factor=0.05, by_epoch=True, begin=0, end=1, convert_to_iter_based=True),
    dict(type='CosineAnnealingLR', by_epoch=True, begin=1, convert_to_iter_based=True),
]
train_cfg = dict(by_epoch=True, max_epochs=12, val_interval=4)
val_cfg = dict()
test_cfg = dict()
auto_scale_lr = dict(enable=False, base_batch_size=64)
