# VQA v2 as frozen features. A row holds the features of the question, then those of the image.
# data/vqa_features.npz
#   train_features (N, 768 + 2048), train_labels (N, 3129) with soft scores, as mmml_losses.VQASoftAnswers has them
#   test_features, test_labels: 1 for every answer that anyone gave (score_rule='any'), as the metrics need hard labels
_base_ = 'features.py'

ann_file = 'data/vqa_features.npz'
train_dataloader = dict(batch_size=256, dataset=dict(ann_file=ann_file))
val_dataloader = dict(dataset=dict(ann_file=ann_file))
test_dataloader = val_dataloader
