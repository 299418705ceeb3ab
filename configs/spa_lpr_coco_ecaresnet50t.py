# The CNN of the paper's Table 3, through timm.
_base_ = [
    '_base_/models/ecaresnet50t_coco.py',
    '_base_/datasets/coco2014.py',
    '_base_/schedules/spa_paper.py',
    '_base_/losses/spa_lpr.py',
    '_base_/default_runtime.py',
]

model = dict(head=dict(loss=_base_.loss))
