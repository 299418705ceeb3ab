# DigitScenes for detectors, in which every box of the training scenes is hidden with a probability of one half.
_base_ = 'digits.py'

train_dataloader = dict(
    dataset=dict(
        _delete_=True,
        type='mmml_losses.MissingBoxes',
        missing_ratio=0.5,
        dataset=_base_.train_dataloader.dataset,
    )
)
