# NUS-WIDE as the LASD paper splits it, with at most one label per image: images without a label stay without.
_base_ = 'nus_wide_150k.py'

train_dataloader = dict(
    dataset=dict(_delete_=True, type='mmml_losses.SinglePositive', dataset=_base_.train_dataloader.dataset)
)
