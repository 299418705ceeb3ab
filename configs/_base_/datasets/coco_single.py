# COCO 2014 with one label per image, 82,081 labels, at 448 px (LASD paper, Table 1, which does not state its image
# size). The recipe of the Hill and SPLC paper is in coco_single_hill.py.
_base_ = 'coco2014_448.py'

train_dataloader = dict(
    dataset=dict(_delete_=True, type='mmml_losses.SinglePositive', dataset=_base_.train_dataloader.dataset)
)

val_evaluator = dict(metrics=[*_base_.val_evaluator.metrics, dict(type='mmml_losses.MultiLabelF1')])
test_evaluator = val_evaluator
