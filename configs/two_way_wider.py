# Two-way loss on WIDER Attribute (Two-way Multi-Label Loss, Section 4.1 and Table 7), ResNet-50. Unspecified
# attributes are unknown, which the authors' code leaves out.
_base_ = [
    '_base_/models/resnet50.py',
    '_base_/datasets/wider_attribute.py',
    '_base_/schedules/two_way_paper.py',
    '_base_/losses/two_way.py',
    '_base_/default_runtime.py',
]

model = dict(head=dict(num_classes=_base_.data_preprocessor.num_classes, loss=_base_.loss))
train_dataloader = dict(batch_size=512)
