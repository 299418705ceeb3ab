# The transformer of the paper's Table 3.
_base_ = [
    '_base_/models/vit_b32_coco.py',
    '_base_/datasets/coco2014.py',
    '_base_/schedules/spa_paper.py',
    '_base_/losses/spa_lpr.py',
    '_base_/default_runtime.py',
]

model = dict(head=dict(loss=_base_.loss))
data_preprocessor = dict(mean=[127.5, 127.5, 127.5], std=[127.5, 127.5, 127.5])  # as its weights were trained
