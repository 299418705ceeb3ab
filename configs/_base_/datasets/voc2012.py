# PASCAL VOC 2012 as the papers count it: 5,717 training images, and the 5,823 of val as the test set.
# data/VOCdevkit/VOC2012/
#   ImageSets/Main/train.txt, ImageSets/Main/val.txt
#   Annotations/2008_000002.xml, ...
#   JPEGImages/2008_000002.jpg, ...
_base_ = '_images_448.py'

dataset_type = 'mmml_losses.VOC'
data_root = 'data/VOCdevkit/VOC2012'
data_preprocessor = dict(num_classes=20)

train_dataloader = dict(dataset=dict(type=dataset_type, data_root=data_root, split='train'))
val_dataloader = dict(dataset=dict(type=dataset_type, data_root=data_root, split='val'))
test_dataloader = val_dataloader
