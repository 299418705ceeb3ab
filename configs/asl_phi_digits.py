# ASL on DigitScenes. Every metric is reported twice: raw, and for the probabilities corrected by phi (SPA paper, Eq.
# 15).
_base_ = [
    '_base_/models/resnet_digits.py',
    '_base_/datasets/digit_scenes.py',
    '_base_/schedules/digits.py',
    '_base_/losses/asl.py',
    '_base_/default_runtime.py',
]

model = dict(head=dict(loss=_base_.loss))
custom_hooks = [*_base_.custom_hooks, dict(type='mmml_losses.PostHocCalibrationHook', methods=['phi'])]
