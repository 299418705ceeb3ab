# COCO 2014 at 448 px in the recipe of the Hill and SPLC paper (Section IV-A).
_base_ = ['coco2014_448.py', '_hill.py']

data_preprocessor = dict(_base_.hill_pixels)
train_pipeline = _base_.hill_train_pipeline
train_dataloader = dict(batch_size=128, dataset=dict(pipeline=train_pipeline))

val_evaluator = dict(metrics=_base_.hill_metrics)
test_evaluator = val_evaluator
