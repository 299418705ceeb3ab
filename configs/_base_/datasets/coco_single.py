# COCO 2014 with one label per image, 82,081 labels, at 448 px (Hill and SPLC paper, Table II; LASD paper, Table 1,
# which does not state its image size). The labels that the Hill and SPLC authors drew are a list that Relabelled reads,
# see docs/labels.md.
_base_ = 'coco2014_448.py'

train_dataloader = dict(
    dataset=dict(_delete_=True, type='mmml_losses.SinglePositive', dataset=_base_.train_dataloader.dataset)
)

val_evaluator = dict(metrics=[*_base_.val_evaluator.metrics, dict(type='mmml_losses.MultiLabelF1')])
test_evaluator = val_evaluator
