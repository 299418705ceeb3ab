# COCO 2014 with 75% of its labels left, 181,422 of 241,035 (Hill and SPLC paper, Table II, where r is 0.5). The labels
# that the authors drew are a list that Relabelled reads, see docs/labels.md.
_base_ = 'coco2014_hill.py'

train_dataloader = dict(
    dataset=dict(
        _delete_=True, type='mmml_losses.MissingLabels', missing_ratio=0.5, dataset=_base_.train_dataloader.dataset
    )
)
