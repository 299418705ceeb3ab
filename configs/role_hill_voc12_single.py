# ROLE on VOC 2012 with one label per image, in the recipe of the Hill and SPLC paper (Tables IV and XIII).
_base_ = [
    '_base_/models/resnet50.py',
    '_base_/datasets/voc2012_single_hill.py',
    '_base_/schedules/hill_role.py',
    '_base_/ema_runtime.py',
]

num_classes = _base_.data_preprocessor.num_classes
loss = dict(
    type='mmml_losses.ROLELoss',
    num_samples=5_717,
    num_classes=num_classes,
    expected_positives=1.46,  # LASD paper, Table 1
    reduction=_base_.loss_reduction,
)
model = dict(head=dict(num_classes=num_classes, loss=loss))

# ROLE is evaluated at tau = (1 + lowest probability) / 2 instead of 0.5 (Hill and SPLC paper, Appendix B).
f1 = dict(type='mmml_losses.MultiLabelF1', threshold='midpoint')
val_evaluator = dict(metrics=[*_base_.val_evaluator.metrics[:-1], f1])
test_evaluator = val_evaluator
