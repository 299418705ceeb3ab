# Transfer of two_way_imagenet.py to Oxford-IIIT Pets (Two-way Multi-Label Loss, Section 4.4 and Table 8): a linear
# classifier on the frozen backbone. 3,680 training and 3,669 test images, read by MMPretrain. How the classifier is
# trained is ours: softmax and the schedule of Section 4.1.
# data/Oxford-IIIT_Pets/
#   annotations/trainval.txt, annotations/test.txt, images/
_base_ = [
    '_base_/models/resnet50_frozen.py',
    '_base_/datasets/imagenet_transfer.py',
    '_base_/schedules/two_way_paper.py',
    '_base_/losses/softmax.py',
    '_base_/default_runtime.py',
]

num_classes = 37
data_preprocessor = dict(num_classes=num_classes)
model = dict(head=dict(num_classes=num_classes, loss=_base_.loss))

dataset = dict(type='OxfordIIITPet', data_root='data/Oxford-IIIT_Pets')
train_dataloader = dict(dataset=dict(**dataset, split='trainval'))
val_dataloader = dict(dataset=dict(**dataset, split='test'))
test_dataloader = val_dataloader
