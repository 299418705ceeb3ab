# ResNet-50 with 256 features, as the code of the DB loss (configs/*/LT_resnet50_pfc_DB.py, necks/pfc.py) and of the DR
# loss has it: the first stage is frozen, and a linear layer, batch normalisation and dropout follow the pooling. The
# batch normalisation of the backbone keeps the statistics of its weights (default of mllt/models/backbones/resnet.py).
_base_ = 'resnet50.py'

model = dict(
    backbone=dict(frozen_stages=1, norm_eval=True),
    neck=dict(
        _delete_=True,
        type='LinearNeck',
        in_channels=2048,
        out_channels=256,
        gap_dim=2,
        norm_cfg=dict(type='BN1d'),
        act_cfg=dict(type='Dropout', drop_prob=0.5),  # in place of an activation, which the code does not have
        init_cfg=dict(type='Kaiming', layer='Linear', mode='fan_out'),
    ),
    head=dict(in_channels=256),
)
