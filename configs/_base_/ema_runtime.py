# Runtime settings with a moving average of the weights, as in the Hill and SPLC paper (Section IV-A). The paper does
# not state the decay of the average; these values are ours and untested.
_base_ = 'default_runtime.py'

# gamma: the average is over about the last tenth of the iterations until there are 33,000 of them. A constant momentum
# would keep much of the first weights in a short training.
custom_hooks = [
    *_base_.custom_hooks,
    dict(type='EMAHook', ema_type='MomentumAnnealingEMA', momentum=3e-4, gamma=10),
]
