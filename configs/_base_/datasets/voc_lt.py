# VOC-LT: the 1,142 published images of VOC 2012, tested on the 4,952 test images of VOC 2007.
# data/VOCdevkit/
#   VOC2012/ImageSets/Main/trainval.txt, VOC2012/Annotations/, VOC2012/JPEGImages/
#   VOC2007/ImageSets/Main/test.txt, VOC2007/Annotations/, VOC2007/JPEGImages/
_base_ = '_long_tailed.py'

dataset_type = 'mmml_losses.VOC'
data_root = 'data/VOCdevkit'
data_preprocessor = dict(num_classes=20)

train_dataloader = dict(
    dataset=dict(
        split='voc-lt',
        dataset=dict(
            type=dataset_type,
            data_root=data_root + '/VOC2012',
            split='trainval',
            difficult='positive',  # as in the published labels
        ),
    )
)
val_dataloader = dict(
    dataset=dict(
        type=dataset_type,
        data_root=data_root + '/VOC2007',
        split='test',
        difficult='positive',  # as in training; the paper does not state it
    )
)
test_dataloader = val_dataloader

# Images of each class in the training set. They make 6 classes head, 6 medium and 8 tail in the evaluation.
class_frequencies = [6, 34, 8, 14, 154, 17, 249, 29, 479, 4, 240, 48, 11, 20, 775, 100, 5, 82, 7, 64]
val_evaluator = dict(
    metrics=[
        dict(type='mmml_losses.MultiLabelAP', class_frequencies=class_frequencies),
        dict(type='mmml_losses.CalibrationError'),
    ],
)
test_evaluator = val_evaluator
