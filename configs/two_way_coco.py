# Two-way loss on COCO (Two-way Multi-Label Loss, Section 4.1 and Table 7), ResNet-50. The paper's other networks are in
# two_way_coco_resnext50.py, two_way_coco_densenet169.py and two_way_coco_regnety_32gf.py. For other datasets, put their
# model in place of resnet50.py.
_base_ = [
    '_base_/models/resnet50.py',
    '_base_/datasets/coco2014.py',
    '_base_/schedules/two_way_paper.py',
    '_base_/losses/two_way.py',
    '_base_/default_runtime.py',
]

model = dict(head=dict(num_classes=_base_.data_preprocessor.num_classes, loss=_base_.loss))
train_dataloader = dict(batch_size=512)
