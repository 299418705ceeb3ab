# ROLE on DigitScenes with one label per scene. The label estimates learn ten times as fast as the network.
_base_ = [
    '_base_/models/resnet_digits.py',
    '_base_/datasets/digit_scenes_single.py',
    '_base_/schedules/digits.py',
    '_base_/default_runtime.py',
]

loss = dict(
    type='mmml_losses.ROLELoss',
    num_samples=6000,
    num_classes=10,
    expected_positives=2.2,  # labels of a scene, on average
)
model = dict(head=dict(loss=loss))
optim_wrapper = dict(paramwise_cfg=dict(custom_keys=dict(label_estimator=dict(lr_mult=10, decay_mult=0))))
