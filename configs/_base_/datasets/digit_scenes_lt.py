# DigitScenes with a long tail: 1,155 of the 6,000 training scenes. The digits are in 1,000 scenes to 5.
_base_ = 'digit_scenes.py'

train_dataloader = dict(
    dataset=dict(
        _delete_=True,
        type='mmml_losses.LongTailed',
        dataset=_base_.train_dataloader.dataset,
        largest=1000,
        smallest=5,
        fill_up=True,  # every class exactly on the curve
    )
)

# Scenes of each class in the training set. They make 4 classes head, 3 medium and 3 tail in the evaluation.
class_frequencies = [1000, 436, 208, 106, 58, 33, 20, 12, 8, 5]
val_evaluator = dict(
    metrics=[
        dict(type='mmml_losses.MultiLabelAP', class_frequencies=class_frequencies),
        dict(type='mmml_losses.CalibrationError'),
    ],
)
test_evaluator = val_evaluator
