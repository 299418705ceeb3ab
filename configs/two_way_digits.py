# Two-way loss on DigitScenes. The classifier has the learning rate of the rest, as all weights start from scratch.
_base_ = [
    '_base_/models/resnet_digits.py',
    '_base_/datasets/digit_scenes.py',
    '_base_/schedules/digits.py',
    '_base_/losses/two_way.py',
    '_base_/default_runtime.py',
]

model = dict(head=dict(loss=_base_.loss))
