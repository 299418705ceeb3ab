# DigitScenes with one label per scene, and three views of each training scene.
_base_ = 'digit_scenes_views.py'

train_dataloader = dict(
    dataset=dict(_delete_=True, type='mmml_losses.SinglePositive', dataset=_base_.train_dataloader.dataset)
)

val_evaluator = dict(metrics=[*_base_.val_evaluator.metrics, dict(type='mmml_losses.MultiLabelF1')])
test_evaluator = val_evaluator
