# The transfer protocol of the two-way paper (Section 4.4, Table 8): the backbone of two_way_imagenet.py frozen, and a
# linear classifier trained on another dataset with one label per image, here the 100 classes of Aircraft. The paper
# does not state how the classifier is trained: softmax and the schedule of Section 4.1 are our choice. For other
# datasets set num_classes, twice, and data_root, in each dataloader.
# data/aircraft/
#   train/CLASS/IMAGE.jpg, ...; val/CLASS/IMAGE.jpg, ... (val is the test set)
# The same on features, in seconds: tools/extract_features.py with this config and that checkpoint, then bce_features.py
# with --loss softmax.
_base_ = [
    '_base_/models/resnet50.py',
    '_base_/datasets/imagenet.py',
    '_base_/schedules/two_way_paper.py',
    '_base_/losses/softmax.py',
    '_base_/default_runtime.py',
]

num_classes = 100
data_root = 'data/aircraft'
data_preprocessor = dict(num_classes=num_classes)
model = dict(
    backbone=dict(
        frozen_stages=4,
        norm_eval=True,
        init_cfg=dict(checkpoint='work_dirs/two_way_imagenet/epoch_90.pth'),
    ),
    head=dict(num_classes=num_classes, loss=_base_.loss),
)
train_dataloader = dict(batch_size=512, dataset=dict(data_root=data_root))
val_dataloader = dict(dataset=dict(data_root=data_root))
test_dataloader = val_dataloader
