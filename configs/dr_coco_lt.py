# DR on COCO-LT with class-aware sampling (Distributionally Robust Loss for Long-Tailed Multi-Label Image
# Classification, Table 1), ResNet-50 at 224 px.
_base_ = [
    '_base_/models/resnet50_256.py',
    '_base_/datasets/coco_lt.py',
    '_base_/schedules/dr_paper.py',
    '_base_/losses/dr.py',
    '_base_/default_runtime.py',
]

loss = dict(_base_.loss, constraint_scale=10.0, reduction=_base_.loss_reduction)  # gamma 2, Table 2
model = dict(head=dict(num_classes=_base_.data_preprocessor.num_classes, loss=loss))
optim_wrapper = dict(optimizer=dict(lr=1e-4))  # Section 4.1
