# PASCAL VOC 2007 as the papers count it: 5,011 training and 4,952 test images.
# data/VOCdevkit/VOC2007/
#   ImageSets/Main/trainval.txt, ImageSets/Main/test.txt
#   Annotations/000005.xml, ...
#   JPEGImages/000005.jpg, ...
_base_ = '_images_448.py'

dataset_type = 'mmml_losses.VOC'
data_root = 'data/VOCdevkit/VOC2007'
data_preprocessor = dict(num_classes=20)

train_dataloader = dict(dataset=dict(type=dataset_type, data_root=data_root, split='trainval'))
val_dataloader = dict(dataset=dict(type=dataset_type, data_root=data_root, split='test'))
test_dataloader = val_dataloader
