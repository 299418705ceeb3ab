# Section IV-A of the Hill and SPLC paper: Adam, weight decay 1e-4, one cycle up to 1e-4. All else is that of the
# authors' code (train.py of xinyu1205/robust-loss-mlml), because the paper does not state it: a cycle of 80 epochs, a
# fifth of which goes up and which is stopped after 31, batches of 128, the first momentum of Adam going from 0.95 down
# to 0.85 and back (PyTorch's OneCycleLR), and no decay of biases and norms. The moving average of the weights is in
# ema_runtime.py, and the images in datasets/_hill.py. The code trains in mixed precision (--amp here) and reports the
# best epoch on the test set, of the weights or their average; these configs report every epoch of the average.
# The losses of this recipe are sums, as in the code: Adam does not mind the scale of a loss, but its weight decay does.
loss_reduction = 'sum'
optim_wrapper = dict(
    optimizer=dict(type='Adam', lr=1e-4, betas=(0.95, 0.999), weight_decay=1e-4),
    paramwise_cfg=dict(bias_decay_mult=0, norm_decay_mult=0),
)
param_scheduler = [
    dict(type='OneCycleLR', eta_max=1e-4, pct_start=0.2, end=80, by_epoch=True, convert_to_iter_based=True),
    dict(type='CosineAnnealingMomentum', eta_min=0.85, begin=0, end=16, by_epoch=True, convert_to_iter_based=True),
    dict(type='CosineAnnealingMomentum', eta_min=0.95, begin=16, end=80, by_epoch=True, convert_to_iter_based=True),
]
train_cfg = dict(by_epoch=True, max_epochs=31, val_interval=1)
val_cfg = dict()
test_cfg = dict()
auto_scale_lr = dict(enable=False, base_batch_size=128)
