# ML-GCN on VOC-LT (DR paper, Table 1), over BCE: the labels that come together at least 0.4 of the time are joined, and
# weigh 0.2 beside the label itself. Without class-aware sampling: the paper does not count it among those with it. Give
# vectors of the class names with model.head.word_vectors=FILE; without, every class is a vector of its own.
_base_ = [
    '_base_/models/resnet50.py',
    '_base_/datasets/voc_lt.py',
    '_base_/schedules/dr_paper.py',
    '_base_/losses/bce.py',
    '_base_/default_runtime.py',
]

model = dict(
    neck=dict(type='mmml_losses.GlobalMaxPooling'),  # as the authors of ML-GCN pool
    head=dict(
        type='mmml_losses.GCNHead',
        num_classes=_base_.data_preprocessor.num_classes,
        threshold=0.4,
        neighbour_weight=0.2,
        loss=dict(_base_.loss, reduction='sum'),
    ),
)
train_dataloader = dict(sampler=dict(_delete_=True, type='DefaultSampler', shuffle=True))
# As many iterations as with class-aware sampling, whose epochs are longer; ours.
train_cfg = dict(max_epochs=27)
param_scheduler = [
    _base_.param_scheduler[0],
    dict(type='MultiStepLR', milestones=[17, 24], gamma=0.1, by_epoch=True),
]
