# VQA v2 with soft answer scores, trained on train2014. On val2014 every answer that anyone gave counts as correct.
# data/vqa/
#   answers.json, which mmml_losses.datasets.make_answer_file writes; its length is num_classes below
#   v2_OpenEnded_mscoco_train2014_questions.json, v2_mscoco_train2014_annotations.json
#   v2_OpenEnded_mscoco_val2014_questions.json, v2_mscoco_val2014_annotations.json
# data/coco/
#   train2014/, val2014/
_base_ = '_images.py'

dataset_type = 'mmml_losses.VQASoftAnswers'
data_root = 'data'
data_preprocessor = dict(num_classes=3129)

# Training images are not flipped either: questions distinguish left from right.
test_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='Resize', scale=(224, 224)),
    dict(type='PackInputs', algorithm_keys=('question', 'question_id')),
]
train_pipeline = test_pipeline

train_dataloader = dict(
    dataset=dict(
        type=dataset_type,
        data_root=data_root,
        ann_file='vqa/v2_mscoco_train2014_annotations.json',
        question_file='vqa/v2_OpenEnded_mscoco_train2014_questions.json',
        answer_file='vqa/answers.json',
        data_prefix='coco/train2014',
        pipeline=train_pipeline,
    )
)
val_dataloader = dict(
    dataset=dict(
        type=dataset_type,
        data_root=data_root,
        ann_file='vqa/v2_mscoco_val2014_annotations.json',
        question_file='vqa/v2_OpenEnded_mscoco_val2014_questions.json',
        answer_file='vqa/answers.json',
        data_prefix='coco/val2014',
        score_rule='any',  # the metrics need hard labels
        pipeline=test_pipeline,
    )
)
test_dataloader = val_dataloader
