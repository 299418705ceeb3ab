# ASL on DigitScenes. Every metric comes twice: raw, and for the probabilities that phi corrects (SPA paper, Eq. 15).
_base_ = 'asl_digits.py'

custom_hooks = [*_base_.custom_hooks, dict(type='mmml_losses.PostHocCalibrationHook', methods=['phi'])]
