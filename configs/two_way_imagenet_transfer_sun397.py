# Transfer of two_way_imagenet.py to SUN397 (Two-way Multi-Label Loss, Section 4.4 and Table 8): a linear classifier
# on the frozen backbone. 19,850 training and 19,850 test images (partition 1), read by MMPretrain. How the classifier
# is trained is ours: softmax and the schedule of Section 4.1.
# data/SUN397/
#   Partitions/Training_01.txt, Partitions/Testing_01.txt, SUN397/a/abbey/, ...
_base_ = [
    '_base_/models/resnet50_frozen.py',
    '_base_/datasets/imagenet_transfer.py',
    '_base_/schedules/two_way_paper.py',
    '_base_/losses/softmax.py',
    '_base_/default_runtime.py',
]

num_classes = 397
data_preprocessor = dict(num_classes=num_classes)
model = dict(head=dict(num_classes=num_classes, loss=_base_.loss))

# Some files are no JPEG although their names end so, and OpenCV cannot read all of them.
load = dict(type='LoadImageFromFile', imdecode_backend='pillow')
train_pipeline, test_pipeline = [load, *_base_.train_pipeline[1:]], [load, *_base_.test_pipeline[1:]]

dataset = dict(type='SUN397', data_root='data/SUN397')
train_dataloader = dict(dataset=dict(**dataset, split='train', pipeline=train_pipeline))
val_dataloader = dict(dataset=dict(**dataset, split='test', pipeline=test_pipeline))
test_dataloader = val_dataloader
