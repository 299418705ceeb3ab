# ERM on COCO-LT: BCE without class-aware sampling (DR paper, Table 1). RW, Focal, LDAM, CB Focal and ASL are --loss
# NAME with this config: the paper does not list them among the methods with class-aware sampling.
_base_ = [
    '_base_/models/resnet50_256.py',
    '_base_/datasets/coco_lt.py',
    '_base_/schedules/dr_paper.py',
    '_base_/losses/bce.py',
    '_base_/default_runtime.py',
]

loss = dict(_base_.loss, reduction=_base_.loss_reduction)
model = dict(head=dict(num_classes=_base_.data_preprocessor.num_classes, loss=loss))
train_dataloader = dict(sampler=dict(_delete_=True, type='DefaultSampler', shuffle=True))
optim_wrapper = dict(optimizer=dict(lr=1e-4))  # Section 4.1
# As many iterations as with class-aware sampling, whose epochs are longer; ours.
train_cfg = dict(max_epochs=94)
param_scheduler = [
    _base_.param_scheduler[0],
    dict(type='MultiStepLR', milestones=[59, 82], gamma=0.1, by_epoch=True),
]
