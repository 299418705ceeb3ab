# A linear layer on frozen features of any backbone, see _base_/datasets/features.py. For a file of other sizes set
# num_classes and in_channels. bce_mlp_features.py adds a hidden layer.
_base_ = [
    '_base_/models/linear_features.py',
    '_base_/datasets/features.py',
    '_base_/schedules/features.py',
    '_base_/losses/bce.py',
    '_base_/default_runtime.py',
]

model = dict(head=dict(loss=_base_.loss))
custom_hooks = [*_base_.custom_hooks, dict(type='mmml_losses.FeatureStatisticsHook')]
