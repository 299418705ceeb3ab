# The transfer of two_way_imagenet.py (Two-way Multi-Label Loss, Section 4.4 and Table 8) to any dataset in class
# folders: a linear classifier on the frozen backbone. The nine datasets of the paper as they are released are in
# two_way_imagenet_transfer_aircraft.py and the like. Set num_classes, twice, and data_root, in each dataloader.
# data/aircraft/
#   train/CLASS/IMAGE.jpg, ...; val/CLASS/IMAGE.jpg, ... (val is the test set)
# The same on features, in seconds: tools/extract_features.py with this config and that checkpoint, then bce_features.py
# with --loss softmax.
_base_ = [
    '_base_/models/resnet50_frozen.py',
    '_base_/datasets/imagenet.py',
    '_base_/schedules/two_way_paper.py',
    '_base_/losses/softmax.py',
    '_base_/default_runtime.py',
]

num_classes = 100
data_root = 'data/aircraft'
data_preprocessor = dict(num_classes=num_classes)
model = dict(head=dict(num_classes=num_classes, loss=_base_.loss))
train_dataloader = dict(batch_size=512, dataset=dict(data_root=data_root))
val_dataloader = dict(dataset=dict(data_root=data_root))
test_dataloader = val_dataloader
