# Transfer of two_way_imagenet.py to Caltech-101 (Two-way Multi-Label Loss, Section 4.4 and Table 8): a linear
# classifier on the frozen backbone. 3,060 training images, 30 of each class, and 6,728 test images, read by
# MMPretrain. How the classifier is trained is ours: softmax and the schedule of Section 4.1.
# data/caltech-101/
#   101_ObjectCategories/
#   meta/train.txt, meta/test.txt: the release has no split; MMPretrain publishes this one,
#     https://download.openmmlab.com/mmpretrain/datasets/caltech_meta.zip
_base_ = [
    '_base_/models/resnet50_frozen.py',
    '_base_/datasets/imagenet_transfer.py',
    '_base_/schedules/two_way_paper.py',
    '_base_/losses/softmax.py',
    '_base_/default_runtime.py',
]

num_classes = 102
data_preprocessor = dict(num_classes=num_classes)
model = dict(head=dict(num_classes=num_classes, loss=_base_.loss))

dataset = dict(type='Caltech101', data_root='data/caltech-101')
train_dataloader = dict(dataset=dict(**dataset, split='train'))
val_dataloader = dict(dataset=dict(**dataset, split='test'))
test_dataloader = val_dataloader
