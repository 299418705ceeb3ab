# ML-GCN on VOC-LT (DR paper, Table 1), over BCE. A label is joined to those that occur in at least 0.4 of its images;
# together they weigh 0.2, and the label itself 0.8. There is no class-aware sampling, as the paper does not list ML-GCN
# among the methods with it. Names of classes become the word vectors of GloVe, as the authors of ML-GCN take them:
# data/glove.6B.300d.txt, from glove.6B.zip of https://nlp.stanford.edu/projects/glove. One-hot vectors instead:
# --cfg-options model.head.word_vectors=None
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
        word_vectors='data/glove.6B.300d.txt',
        threshold=0.4,
        neighbour_weight=0.2,
        loss=dict(_base_.loss, reduction=_base_.loss_reduction),
    ),
)
train_dataloader = dict(sampler=dict(_delete_=True, type='DefaultSampler', shuffle=True))
# As many iterations as with class-aware sampling, whose epochs are longer; ours.
train_cfg = dict(max_epochs=27)
param_scheduler = [
    _base_.param_scheduler[0],
    dict(type='MultiStepLR', milestones=[17, 24], gamma=0.1, by_epoch=True),
]
