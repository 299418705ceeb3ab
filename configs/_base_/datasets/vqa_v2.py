# VQA v2 with soft answer scores, trained on train2014 and evaluated on val2014 with the answers that anyone gave.
# data/vqa/
#   answers.json, which mmml_losses.datasets.make_answer_file writes; its length is num_classes below
#   v2_OpenEnded_mscoco_train2014_questions.json, v2_mscoco_train2014_annotations.json
#   v2_OpenEnded_mscoco_val2014_questions.json, v2_mscoco_val2014_annotations.json
# data/coco/
#   train2014/, val2014/
dataset_type = 'mmml_losses.VQASoftAnswers'
data_root = 'data'
data_preprocessor = dict(num_classes=3129, mean=[123.675, 116.28, 103.53], std=[58.395, 57.12, 57.375], to_rgb=True)

# No flip: questions tell left from right.
train_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='Resize', scale=(224, 224)),
    dict(type='PackInputs', algorithm_keys=('question', 'question_id')),
]
test_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='Resize', scale=(224, 224)),
    dict(type='PackInputs', algorithm_keys=('question', 'question_id')),
]

train_dataloader = dict(
    batch_size=256,
    num_workers=8,
    dataset=dict(
        type=dataset_type,
        data_root=data_root,
        ann_file='vqa/v2_mscoco_train2014_annotations.json',
        question_file='vqa/v2_OpenEnded_mscoco_train2014_questions.json',
        answer_file='vqa/answers.json',
        data_prefix='coco/train2014',
        pipeline=train_pipeline,
    ),
    sampler=dict(type='DefaultSampler', shuffle=True),
)
val_dataloader = dict(
    batch_size=256,
    num_workers=8,
    dataset=dict(
        type=dataset_type,
        data_root=data_root,
        ann_file='vqa/v2_mscoco_val2014_annotations.json',
        question_file='vqa/v2_OpenEnded_mscoco_val2014_questions.json',
        answer_file='vqa/answers.json',
        data_prefix='coco/val2014',
        score_rule='any',  # the metrics need hard labels
        pipeline=test_pipeline,
        test_mode=True,
    ),
    sampler=dict(type='DefaultSampler', shuffle=False),
)
test_dataloader = val_dataloader

val_evaluator = dict(
    type='mmml_losses.MultiLabelEvaluator',  # collects the predictions once for all metrics
    metrics=[dict(type='mmml_losses.MultiLabelAP'), dict(type='mmml_losses.CalibrationError')],
)
test_evaluator = val_evaluator
