# Transfer of two_way_imagenet.py to Food-101 (Two-way Multi-Label Loss, Section 4.4 and Table 8): a linear classifier
# on the frozen backbone. 75,750 training and 25,250 test images, read by MMPretrain. How the classifier is trained is
# ours: softmax and the schedule of Section 4.1.
# data/food-101/
#   meta/train.txt, meta/test.txt, images/
_base_ = [
    '_base_/models/resnet50_frozen.py',
    '_base_/datasets/imagenet_transfer.py',
    '_base_/schedules/two_way_paper.py',
    '_base_/losses/softmax.py',
    '_base_/default_runtime.py',
]

num_classes = 101
data_preprocessor = dict(num_classes=num_classes)
model = dict(head=dict(num_classes=num_classes, loss=_base_.loss))

dataset = dict(type='Food101', data_root='data/food-101')
train_dataloader = dict(dataset=dict(**dataset, split='train'))
val_dataloader = dict(dataset=dict(**dataset, split='test'))
test_dataloader = val_dataloader
