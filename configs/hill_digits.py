# Hill on DigitScenes with missing labels.
_base_ = [
    '_base_/models/resnet_digits.py',
    '_base_/datasets/digit_scenes_40.py',
    '_base_/schedules/digits.py',
    '_base_/losses/hill.py',
    '_base_/default_runtime.py',
]

model = dict(head=dict(loss=_base_.loss))
