# Two-way loss on DigitScenes. The classifier learns as fast as the rest, which starts from scratch.
_base_ = [
    '_base_/models/resnet_digits.py',
    '_base_/datasets/digit_scenes.py',
    '_base_/schedules/digits.py',
    '_base_/losses/two_way.py',
    '_base_/default_runtime.py',
]

model = dict(head=dict(loss=_base_.loss))
