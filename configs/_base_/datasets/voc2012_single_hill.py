# VOC 2012 with one label per image in the recipe of the Hill and SPLC paper: 5,717 images and labels (Section IV-A).
_base_ = 'voc2012_hill.py'

train_dataloader = dict(
    dataset=dict(_delete_=True, type='mmml_losses.SinglePositive', dataset=_base_.train_dataloader.dataset)
)
