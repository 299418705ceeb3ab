# BalPoE with a BCE base on DigitScenes with a long tail, with class-aware sampling.
_base_ = [
    '_base_/models/resnet_digits.py',
    '_base_/datasets/digit_scenes_lt.py',
    '_base_/schedules/digits.py',
    '_base_/losses/bce.py',
    '_base_/default_runtime.py',
]

model = dict(head=dict(type='mmml_losses.ExpertsHead', log_prior_scales=(0.0, 1.0, 2.0), loss=_base_.loss))
train_dataloader = dict(sampler=dict(_delete_=True, type='mmml_losses.ClassAwareSampler'))
