# Section IV-A of the Hill and SPLC paper: Adam, weight decay 1e-4, one cycle up to 1e-4, moving average of the weights.
# It does not state the number of epochs, the batch size, the share of the cycle that goes up and the decay of the
# average: these are ours and untested. The losses of this recipe are sums, as in the authors' code: Adam does not mind
# the scale of a loss, but its weight decay does.
_base_ = '../default_runtime.py'  # for the hooks, to which that of the average is added

optim_wrapper = dict(optimizer=dict(type='Adam', lr=1e-4, weight_decay=1e-4))
param_scheduler = [dict(type='OneCycleLR', eta_max=1e-4, pct_start=0.2, by_epoch=True, convert_to_iter_based=True)]
train_cfg = dict(by_epoch=True, max_epochs=40, val_interval=1)
val_cfg = dict()
test_cfg = dict()
auto_scale_lr = dict(enable=False, base_batch_size=64)

# gamma: the average is over about the last tenth of the iterations until there are 33,000 of them. A constant momentum
# would keep much of the first weights in a short training.
custom_hooks = [
    *_base_.custom_hooks,
    dict(type='EMAHook', ema_type='MomentumAnnealingEMA', momentum=3e-4, gamma=10),
]
