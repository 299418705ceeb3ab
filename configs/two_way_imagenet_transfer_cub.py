# Transfer of two_way_imagenet.py to CUB-200-2011 (Two-way Multi-Label Loss, Section 4.4 and Table 8): a linear
# classifier on the frozen backbone. 5,994 training and 5,794 test images, read by MMPretrain. How the classifier is
# trained is ours: softmax and the schedule of Section 4.1.
# data/CUB_200_2011/
#   images.txt, image_class_labels.txt, train_test_split.txt, images/
_base_ = [
    '_base_/models/resnet50_frozen.py',
    '_base_/datasets/imagenet_transfer.py',
    '_base_/schedules/two_way_paper.py',
    '_base_/losses/softmax.py',
    '_base_/default_runtime.py',
]

num_classes = 200
data_preprocessor = dict(num_classes=num_classes)
model = dict(head=dict(num_classes=num_classes, loss=_base_.loss))

dataset = dict(type='CUB', data_root='data/CUB_200_2011')
train_dataloader = dict(dataset=dict(**dataset, split='train'))
val_dataloader = dict(dataset=dict(**dataset, split='test'))
test_dataloader = val_dataloader
