# AN, BCE with unobserved labels as negatives, on VOC 2012 with one label per image, in the recipe of the LASD paper
# (Table 2). Its other losses are --loss NAME with this config.
_base_ = [
    '_base_/models/resnet50.py',
    '_base_/datasets/voc2012_single.py',
    '_base_/schedules/lasd_paper.py',
    '_base_/losses/bce.py',
    '_base_/default_runtime.py',
]

model = dict(head=dict(num_classes=_base_.data_preprocessor.num_classes, loss=_base_.loss))
train_dataloader = dict(batch_size=16)
