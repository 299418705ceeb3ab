# Shared by the datasets that the two-way paper transfers features of ImageNet to (Table 8), which have one label per
# image: the pipelines of ImageNet, and the accuracy as OP@1. The paper refers to its supplement for the training: size,
# augmentation and batch are ours. The readers are MMPretrain's, which set test_mode themselves.
_base_ = 'imagenet.py'

train_dataloader = dict(batch_size=512, dataset=dict(_delete_=True, pipeline=_base_.train_pipeline))
val_dataloader = dict(dataset=dict(_delete_=True, pipeline=_base_.test_pipeline))
test_dataloader = val_dataloader
