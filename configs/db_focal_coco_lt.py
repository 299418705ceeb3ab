# DB Focal on COCO-LT with class-aware sampling (DR paper, Table 1). Class frequencies are counted in the training set.
_base_ = [
    '_base_/models/resnet50_256.py',
    '_base_/datasets/coco_lt.py',
    '_base_/schedules/dr_paper.py',
    '_base_/losses/db_focal.py',
    '_base_/default_runtime.py',
]

# DB's published values for COCO-LT.
loss = dict(_base_.loss, mu=0.2, negative_scale=2.0, reduction=_base_.loss_reduction)
model = dict(head=dict(num_classes=_base_.data_preprocessor.num_classes, loss=loss))
optim_wrapper = dict(optimizer=dict(lr=1e-4))  # Section 4.1
