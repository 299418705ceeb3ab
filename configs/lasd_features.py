# LASD as a linear probe: a linear layer on frozen features of COCO with one label an image, with the values of the LASD
# paper for COCO (Tables 1 and 4). Consistency needs views of the images, which features do not have.
_base_ = 'bce_features.py'

model = dict(
    head=dict(
        loss=dict(
            _delete_=True,
            type='mmml_losses.LASDLoss',
            positive_leverage=0.03,
            threshold=0.9,
            expected_positives=2.94,
        )
    )
)
train_dataloader = dict(
    dataset=dict(
        _delete_=True,
        type='mmml_losses.SinglePositive',
        dataset=_base_.train_dataloader.dataset,
    )
)
