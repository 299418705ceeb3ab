# PASCAL VOC 2012 at 224 px, in batches of 256, as the SPA paper has it (Section 5.1); the two-way paper
# does not state its image size.
_base_ = 'voc2012.py'

train_pipeline = [_base_.train_pipeline[0], dict(type='Resize', scale=(224, 224)), *_base_.train_pipeline[2:]]
test_pipeline = [_base_.test_pipeline[0], dict(type='Resize', scale=(224, 224)), *_base_.test_pipeline[2:]]

train_dataloader = dict(batch_size=256, dataset=dict(pipeline=train_pipeline))
val_dataloader = dict(batch_size=256, dataset=dict(pipeline=test_pipeline))
test_dataloader = val_dataloader
