# VOC 2012 with one label per image, 5,717 images and labels, at 448 px (LASD paper, Table 1, which does not state its
# image size). The recipe of the Hill and SPLC paper is in voc2012_single_hill.py.
_base_ = 'voc2012.py'

train_dataloader = dict(
    dataset=dict(_delete_=True, type='mmml_losses.SinglePositive', dataset=_base_.train_dataloader.dataset)
)

val_evaluator = dict(metrics=[*_base_.val_evaluator.metrics, dict(type='mmml_losses.MultiLabelF1')])
test_evaluator = val_evaluator
