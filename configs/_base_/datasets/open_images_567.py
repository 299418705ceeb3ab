# Open Images with 567 classes, as the Hill and SPLC paper trains on it: only images with a label, and unknown labels
# count as negative. The paper had 1,742,125 training and 37,306 test images. It does not publish its list of classes.
# data/open_images/
#   classes_567.txt, an identifier such as /m/011k07 a line; all else as in open_images.py
_base_ = ['open_images.py', '_hill.py']
data_preprocessor = dict(_base_.hill_pixels, num_classes=567)

classes = dict(classes_file='classes_567.txt', drop_empty=True, others='negative')

train_pipeline = _base_.hill_train_pipeline
train_dataloader = dict(batch_size=128, dataset=dict(classes, pipeline=train_pipeline))
val_dataloader = dict(dataset=classes)
test_dataloader = dict(dataset=classes)

val_evaluator = dict(metrics=_base_.hill_metrics)
test_evaluator = val_evaluator
