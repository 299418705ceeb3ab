# VQA v2 as frozen features. A row holds the features of the question, then those of the image.
# data/vqa_features.npz, written by tools/extract_question_features.py
#   train_features (N, 768 + 2048), train_labels (N, 3129) with soft scores, as mmml_losses.VQASoftAnswers has them
#   test_features, test_labels: 1 for every answer that anyone gave (score_rule='any'), as most metrics need hard labels
#   train_ids, test_ids: the ids of the questions; classes: the answers
# data/vqa/v2_mscoco_val2014_annotations.json, by which the accuracy is computed
_base_ = 'features.py'

ann_file = 'data/vqa_features.npz'
train_dataloader = dict(batch_size=256, dataset=dict(ann_file=ann_file))
val_dataloader = dict(dataset=dict(ann_file=ann_file))
test_dataloader = val_dataloader

val_evaluator = dict(
    metrics=[
        dict(type='mmml_losses.VQAAccuracy', ann_file='data/vqa/v2_mscoco_val2014_annotations.json'),
        *_base_.val_evaluator.metrics,
    ],
)
test_evaluator = val_evaluator
