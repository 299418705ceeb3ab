# DR on DigitScenes with a long tail, with class-aware sampling.
_base_ = [
    '_base_/models/resnet_digits.py',
    '_base_/datasets/digit_scenes_lt.py',
    '_base_/schedules/digits.py',
    '_base_/losses/dr.py',
    '_base_/default_runtime.py',
]

model = dict(head=dict(loss=_base_.loss))
train_dataloader = dict(sampler=dict(_delete_=True, type='mmml_losses.ClassAwareSampler'))
