# Runtime settings with a moving average of the weights, as in the Hill and SPLC paper (Section IV-A). The paper does
# not state its decay; 0.9997 in every iteration is that of the authors' code (ModelEma in train.py). The code averages
# the statistics of batch normalisation, too; here they are those of the network.
_base_ = 'default_runtime.py'

custom_hooks = [
    *_base_.custom_hooks,
    dict(type='EMAHook', ema_type='ExponentialMovingAverage', momentum=3e-4),
]
