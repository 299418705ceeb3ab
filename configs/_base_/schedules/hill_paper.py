# Section IV-A of the Hill and SPLC paper: Adam, weight decay 1e-4, one cycle up to 1e-4. Its moving average of the
# weights is in ema_runtime.py. The paper does not state the number of epochs, the batch size and the share of the cycle
# that goes up: these are ours and untested. The losses of this recipe are sums, as in the authors' code: Adam does not
# mind the scale of a loss, but its weight decay does.
loss_reduction = 'sum'
optim_wrapper = dict(optimizer=dict(type='Adam', lr=1e-4, weight_decay=1e-4))
param_scheduler = [dict(type='OneCycleLR', eta_max=1e-4, pct_start=0.2, by_epoch=True, convert_to_iter_based=True)]
train_cfg = dict(by_epoch=True, max_epochs=40, val_interval=1)
val_cfg = dict()
test_cfg = dict()
auto_scale_lr = dict(enable=False, base_batch_size=64)
