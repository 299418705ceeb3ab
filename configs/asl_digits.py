# ASL on DigitScenes, with the gradient of its formula; --loss asl trains it as its authors do.
_base_ = [
    '_base_/models/resnet_digits.py',
    '_base_/datasets/digit_scenes.py',
    '_base_/schedules/digits.py',
    '_base_/losses/asl_gradient.py',
    '_base_/default_runtime.py',
]

model = dict(head=dict(loss=_base_.loss))
