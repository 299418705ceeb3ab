# Two-way loss on DigitScenes. The last validation has every metric twice: raw, and with a temperature that is fitted to
# scenes of the training set when the training ends.
_base_ = 'two_way_digits.py'

custom_hooks = [*_base_.custom_hooks, dict(type='mmml_losses.PostHocCalibrationHook', methods=['temperature'])]
