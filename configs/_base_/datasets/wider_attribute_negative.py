# WIDER Attribute with unspecified attributes as negatives, as in the SPA paper: only so are there 0.26 positives for a
# negative (Table 2).
_base_ = 'wider_attribute.py'

train_dataloader = dict(dataset=dict(unspecified='negative'))
val_dataloader = dict(dataset=dict(unspecified='negative'))
test_dataloader = val_dataloader
