# EPR on DigitScenes with one label per scene.
_base_ = [
    '_base_/models/resnet_digits.py',
    '_base_/datasets/digit_scenes_single.py',
    '_base_/schedules/digits.py',
    '_base_/losses/epr.py',
    '_base_/default_runtime.py',
]

model = dict(head=dict(loss=dict(_base_.loss, expected_positives=2.2)))  # labels of a scene, on average
