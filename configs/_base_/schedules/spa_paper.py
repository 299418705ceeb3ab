# Section 5.1 of the SPA paper: SGD, momentum 0.9, weight decay 1e-4, batches of 256. It does not state the learning
# rate and the number of epochs; these two are an untested start for losses that are means over the labels (Eq. 21).
loss_reduction = 'labelmean'  # Eq. 21; a set-wise loss, such as two-way, is divided by the labels of a sample, too
optim_wrapper = dict(optimizer=dict(type='SGD', lr=0.1, momentum=0.9, weight_decay=1e-4))
param_scheduler = [
    dict(type='LinearLR', start_factor=0.1, by_epoch=True, begin=0, end=1, convert_to_iter_based=True),
    dict(type='CosineAnnealingLR', by_epoch=True, begin=1, convert_to_iter_based=True),
]
train_cfg = dict(by_epoch=True, max_epochs=30, val_interval=1)
val_cfg = dict()
test_cfg = dict()
auto_scale_lr = dict(enable=False, base_batch_size=256)
