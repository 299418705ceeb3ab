# LASD as a linear probe: a linear layer on frozen features of COCO with one label per image. The values are those of
# the LASD paper for COCO (Tables 1 and 4). Consistency needs views of the images, which features do not have.
_base_ = [
    '_base_/models/linear_features.py',
    '_base_/datasets/features.py',
    '_base_/schedules/features.py',
    '_base_/default_runtime.py',
]

loss = dict(type='mmml_losses.LASDLoss', positive_leverage=0.03, threshold=0.9, expected_positives=2.94)
model = dict(head=dict(loss=loss))
train_dataloader = dict(
    dataset=dict(_delete_=True, type='mmml_losses.SinglePositive', dataset=_base_.train_dataloader.dataset)
)
custom_hooks = [*_base_.custom_hooks, dict(type='mmml_losses.FeatureStatisticsHook')]
