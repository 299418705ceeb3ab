# Two-way loss on COCO (Two-way Multi-Label Loss, Table 7), RegNetY-32GF.
_base_ = [
    '_base_/models/regnety_32gf.py',
    '_base_/datasets/coco2014.py',
    '_base_/schedules/two_way_paper.py',
    '_base_/losses/two_way.py',
    '_base_/default_runtime.py',
]

model = dict(head=dict(num_classes=_base_.data_preprocessor.num_classes, loss=_base_.loss))
train_dataloader = dict(batch_size=512)
