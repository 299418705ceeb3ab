# CUB-200-2011 with its 312 attributes, as Table 1 of the LASD paper has it: 5,994 training and 5,794 test images.
# data/attributes.txt
# data/CUB_200_2011/
#   images.txt, train_test_split.txt, images/
#   attributes/certainties.txt, attributes/image_attribute_labels.txt
_base_ = '_images_448.py'

dataset_type = 'mmml_losses.CUBAttributes'
data_root = 'data/CUB_200_2011'
data_preprocessor = dict(num_classes=312)

train_dataloader = dict(batch_size=16, dataset=dict(type=dataset_type, data_root=data_root, split='train'))
val_dataloader = dict(batch_size=16, dataset=dict(type=dataset_type, data_root=data_root, split='test'))
test_dataloader = val_dataloader
