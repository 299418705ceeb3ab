# Two-way loss on DigitScenes. The last validation reports every metric twice: raw, and with a temperature that is
# fitted to training scenes when the training ends.
_base_ = [
    '_base_/models/resnet_digits.py',
    '_base_/datasets/digit_scenes.py',
    '_base_/schedules/digits.py',
    '_base_/losses/two_way.py',
    '_base_/default_runtime.py',
]

model = dict(head=dict(loss=_base_.loss))
custom_hooks = [*_base_.custom_hooks, dict(type='mmml_losses.PostHocCalibrationHook', methods=['temperature'])]
