# NUS-WIDE with one label per image: 119,103 images and labels (Hill and SPLC paper, Table II).
_base_ = 'nus_wide.py'

train_dataloader = dict(
    dataset=dict(_delete_=True, type='mmml_losses.SinglePositive', dataset=_base_.train_dataloader.dataset)
)
