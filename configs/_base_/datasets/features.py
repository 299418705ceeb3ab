# Frozen features and labels in one file, as tools/extract_features.py writes it:
# data/features.npz
#   train_features (N, D), train_labels (N, C), train_ids (N,)
#   test_features, test_labels, test_ids
#   classes (C,)
dataset_type = 'mmml_losses.FeatureDataset'
ann_file = 'data/features.npz'
pipeline = [dict(type='PackInputs', input_key='features', meta_keys=('sample_idx', 'img_id'))]

train_dataloader = dict(
    batch_size=128,
    num_workers=0,  # a sample is a row of a file: a worker would take longer to send it than to read it
    dataset=dict(type=dataset_type, ann_file=ann_file, split='train', pipeline=pipeline),
    sampler=dict(type='DefaultSampler', shuffle=True),
)
val_dataloader = dict(
    batch_size=512,
    num_workers=0,
    dataset=dict(type=dataset_type, ann_file=ann_file, split='test', pipeline=pipeline, test_mode=True),
    sampler=dict(type='DefaultSampler', shuffle=False),
)
test_dataloader = val_dataloader

val_evaluator = dict(
    type='mmml_losses.MultiLabelEvaluator',  # collects the predictions once for all metrics
    metrics=[dict(type='mmml_losses.MultiLabelAP'), dict(type='mmml_losses.CalibrationError')],
)
test_evaluator = val_evaluator
