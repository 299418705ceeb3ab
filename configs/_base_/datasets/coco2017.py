# COCO 2017, prepared as in coco2014.py: the images with a label among 118,287 for training and 5,000 for validation.
# data/coco/
#   annotations/instances_train2017.json, annotations/instances_val2017.json
#   train2017/, val2017/
_base_ = 'coco2014.py'

train_dataloader = dict(dataset=dict(ann_file='annotations/instances_train2017.json', data_prefix='train2017'))
val_dataloader = dict(dataset=dict(ann_file='annotations/instances_val2017.json', data_prefix='val2017'))
test_dataloader = val_dataloader
