# Six epochs of Adam, some ten seconds for 24,000 samples on one CPU thread.
loss_reduction = 'labelmean'  # Adam does not mind the scale of a loss; one for all losses compares their logs
optim_wrapper = dict(optimizer=dict(type='Adam', lr=3e-4))
param_scheduler = [
    dict(type='LinearLR', start_factor=0.05, by_epoch=True, begin=0, end=1, convert_to_iter_based=True),
    dict(type='CosineAnnealingLR', by_epoch=True, begin=1, convert_to_iter_based=True),
]
train_cfg = dict(by_epoch=True, max_epochs=6, val_interval=6)
val_cfg = dict()
test_cfg = dict()
auto_scale_lr = dict(enable=False, base_batch_size=128)
