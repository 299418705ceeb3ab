# COCO 2014 with one label per image in the recipe of the Hill and SPLC paper: 82,081 labels (Table II). The labels that
# its authors drew are a list that Relabelled reads, see docs/labels.md.
_base_ = 'coco2014_hill.py'

train_dataloader = dict(
    dataset=dict(_delete_=True, type='mmml_losses.SinglePositive', dataset=_base_.train_dataloader.dataset)
)
