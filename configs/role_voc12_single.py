# ROLE on VOC 2012 with one label per image, in the recipe of the LASD paper (Table 2). The label estimates learn ten
# times as fast as the network, and do not decay.
_base_ = [
    '_base_/models/resnet50.py',
    '_base_/datasets/voc2012_single.py',
    '_base_/schedules/lasd_paper.py',
    '_base_/default_runtime.py',
]

num_classes = _base_.data_preprocessor.num_classes
loss = dict(
    type='mmml_losses.ROLELoss',
    num_samples=5_717,
    num_classes=num_classes,
    expected_positives=1.46,  # Table 1
)
model = dict(head=dict(num_classes=num_classes, loss=loss))
train_dataloader = dict(batch_size=16)
optim_wrapper = dict(paramwise_cfg=dict(custom_keys=dict(label_estimator=dict(lr_mult=10, decay_mult=0))))
