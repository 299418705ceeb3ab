# ML-GCN over BCE on DigitScenes with a long tail.
_base_ = [
    '_base_/models/resnet_digits.py',
    '_base_/datasets/digit_scenes_lt.py',
    '_base_/schedules/digits.py',
    '_base_/losses/bce.py',
    '_base_/default_runtime.py',
]

model = dict(head=dict(type='mmml_losses.GCNHead', hidden_channels=64, loss=_base_.loss))
