# COCO 2014 at 448 px, as the Hill and SPLC paper has it (Section IV-A).
_base_ = 'coco2014.py'

train_pipeline = [_base_.train_pipeline[0], dict(type='Resize', scale=(448, 448)), *_base_.train_pipeline[2:]]
test_pipeline = [_base_.test_pipeline[0], dict(type='Resize', scale=(448, 448)), *_base_.test_pipeline[2:]]

train_dataloader = dict(batch_size=64, dataset=dict(pipeline=train_pipeline))
val_dataloader = dict(batch_size=64, dataset=dict(pipeline=test_pipeline))
test_dataloader = val_dataloader
