# VISPR as Table 2 of the SPA paper counts it: 14,167 images of train and val for training, and 8,000 for testing.
# data/vispr/
#   attributes.tsv
#   train2017.txt, val2017.txt, test2017.txt
#   annotations/train2017/, annotations/val2017/, annotations/test2017/
#   images/train2017/, images/val2017/, images/test2017/
_base_ = '_images.py'

dataset_type = 'mmml_losses.VISPR'
data_root = 'data/vispr'
data_preprocessor = dict(num_classes=68)

train_dataloader = dict(dataset=dict(type=dataset_type, data_root=data_root, ann_file=['train2017.txt', 'val2017.txt']))
val_dataloader = dict(dataset=dict(type=dataset_type, data_root=data_root, ann_file='test2017.txt'))
test_dataloader = val_dataloader
