# ASL on DigitScenes, with the gradient of its formula, whose bias phi corrects (SPA paper, Eq. 15). Every metric is
# reported twice: raw, and for the corrected probabilities.
_base_ = [
    '_base_/models/resnet_digits.py',
    '_base_/datasets/digit_scenes.py',
    '_base_/schedules/digits.py',
    '_base_/losses/asl_gradient.py',
    '_base_/default_runtime.py',
]

model = dict(head=dict(loss=_base_.loss))
custom_hooks = [*_base_.custom_hooks, dict(type='mmml_losses.PostHocCalibrationHook', methods=['phi'])]
