# LASD with consistency between views, on DigitScenes with one label per scene.
_base_ = [
    '_base_/models/resnet_digits.py',
    '_base_/datasets/digit_scenes_single_views.py',
    '_base_/schedules/digits.py',
    '_base_/default_runtime.py',
]

loss = dict(
    type='mmml_losses.SumLoss',
    losses=dict(
        lasd=dict(
            type='mmml_losses.LASDLoss',
            positive_leverage=0.1,  # this value, the next and alpha below are for VOC12 (Table 4)
            threshold=0.9,
            expected_positives=2.2,  # labels of a scene, on average
            loss_weight=10.0,  # Eq. 6 is a sum over the classes
        ),
        consistency=dict(type='mmml_losses.ConsistencyRegularizer', loss_weight=0.7),
    ),
)
model = dict(type='mmml_losses.MultiViewClassifier', head=dict(loss=loss))
