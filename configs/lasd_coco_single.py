# LASD with consistency between views on COCO with one label per image (Leveraged Asymmetric Loss with Disambiguation
# for Multi-label Recognition with One-positive Annotations, Table 2), ResNet-50.
_base_ = [
    '_base_/models/resnet50.py',
    '_base_/datasets/coco_single_views.py',
    '_base_/schedules/lasd_paper.py',
    '_base_/default_runtime.py',
]

num_classes = _base_.data_preprocessor.num_classes
loss = dict(
    type='mmml_losses.SumLoss',
    losses=dict(
        lasd=dict(
            type='mmml_losses.LASDLoss',
            positive_leverage=0.03,  # Table 4, like the threshold
            threshold=0.9,
            expected_positives=2.94,  # Table 1; the other leverage follows by Theorem 5.4
            loss_weight=num_classes,  # Eq. 6 is a sum over the classes
        ),
        consistency=dict(type='mmml_losses.ConsistencyRegularizer', loss_weight=0.1),  # alpha, Table 4
    ),
)
model = dict(type='mmml_losses.MultiViewClassifier', head=dict(num_classes=num_classes, loss=loss))
train_dataloader = dict(batch_size=16)
