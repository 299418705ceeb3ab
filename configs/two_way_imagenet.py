# Two-way loss on ImageNet with one label per image, from scratch (Two-way Multi-Label Loss, Section 4.4 and Table 8),
# ResNet-50. two_way_imagenet_transfer.py starts from its checkpoint.
_base_ = [
    '_base_/models/resnet50.py',
    '_base_/datasets/imagenet.py',
    '_base_/schedules/two_way_imagenet.py',
    '_base_/losses/two_way.py',
    '_base_/default_runtime.py',
]

model = dict(
    backbone=dict(init_cfg=None),
    head=dict(num_classes=_base_.data_preprocessor.num_classes, loss=_base_.loss),
)
train_dataloader = dict(batch_size=512)
