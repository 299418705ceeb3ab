# The recipe of the Hill and SPLC paper for ROLE, whose label estimates learn ten times as fast as the network and do
# not decay. The cycle has two parts, up from 1/25: OneCycleLR sets one maximum for all parameters and undoes lr_mult.
_base_ = 'hill_paper.py'

optim_wrapper = dict(paramwise_cfg=dict(custom_keys=dict(label_estimator=dict(lr_mult=10, decay_mult=0))))
param_scheduler = [
    dict(type='LinearLR', start_factor=1 / 25, by_epoch=True, begin=0, end=16, convert_to_iter_based=True),
    dict(type='CosineAnnealingLR', by_epoch=True, begin=16, end=80, convert_to_iter_based=True),
    *_base_.param_scheduler[1:],
]
