# Transfer of two_way_imagenet.py to FGVC-Aircraft (Two-way Multi-Label Loss, Section 4.4 and Table 8): a linear
# classifier on the frozen backbone. 6,667 training and 3,333 test images, read by MMPretrain. How the classifier is
# trained is ours: softmax and the schedule of Section 4.1.
# data/fgvc-aircraft-2013b/
#   data/images_variant_trainval.txt, data/images_variant_test.txt, data/images/
_base_ = [
    '_base_/models/resnet50_frozen.py',
    '_base_/datasets/imagenet_transfer.py',
    '_base_/schedules/two_way_paper.py',
    '_base_/losses/softmax.py',
    '_base_/default_runtime.py',
]

num_classes = 100
data_preprocessor = dict(num_classes=num_classes)
model = dict(head=dict(num_classes=num_classes, loss=_base_.loss))

dataset = dict(type='FGVCAircraft', data_root='data/fgvc-aircraft-2013b')
train_dataloader = dict(dataset=dict(**dataset, split='trainval'))
val_dataloader = dict(dataset=dict(**dataset, split='test'))
test_dataloader = val_dataloader
