# CUB-200-2011 with one of its 312 attributes per image: 5,994 images and labels (LASD paper, Table 1).
_base_ = 'cub_attributes.py'

train_dataloader = dict(
    dataset=dict(_delete_=True, type='mmml_losses.SinglePositive', dataset=_base_.train_dataloader.dataset)
)
