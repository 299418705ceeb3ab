"""A project of MMPretrain's own kind: its dataset, head, metric and Runner, with one line that names our loss."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

CONFIG = """
default_scope = 'mmpretrain'
custom_imports = dict(imports=['mmml_losses'])
work_dir = 'work_dir'
model = dict(
    type='ImageClassifier',
    backbone=dict(type='ResNet', depth=18, base_channels=8, stem_channels=8),
    neck=dict(type='GlobalAveragePooling'),
    head=dict(
        type='{head}', num_classes=3, in_channels=64, {extra}
        loss=dict(type='mmml_losses.SPALoss'),
    ),
)
data_preprocessor = dict(num_classes=3, mean=[127.5] * 3, std=[127.5] * 3)
pipeline = [dict(type='LoadImageFromFile'), dict(type='PackInputs')]
train_dataloader = dict(
    batch_size=4,
    num_workers=0,
    collate_fn=dict(type='default_collate'),
    sampler=dict(type='DefaultSampler', shuffle=True),
    dataset=dict(type='MultiLabelDataset', data_root='data', ann_file='labels.json', pipeline=pipeline),
)
val_dataloader = train_dataloader
val_evaluator = [
    dict(type='MultiLabelMetric', average='macro'),
    dict(type='AveragePrecision'),
    dict(type='mmml_losses.CalibrationError'),
]
train_cfg = dict(by_epoch=True, max_epochs=2)
val_cfg = dict()
optim_wrapper = dict(optimizer=dict(type='SGD', lr=0.01))
"""
SCRIPT = """
from mmengine.config import Config
from mmengine.runner import Runner
Runner.from_cfg(Config.fromfile('config.py')).train()
"""


@pytest.fixture
def project(tmp_path) -> Path:
    (tmp_path / 'data').mkdir()
    rng = np.random.RandomState(0)
    images = []
    for number in range(8):
        Image.fromarray(rng.randint(0, 256, (32, 32, 3), dtype=np.uint8)).save(tmp_path / 'data' / f'{number}.png')
        images.append(dict(img_path=f'{number}.png', gt_label=[number % 3, (number + number // 4) % 3]))
    for image in images:
        image['gt_label'] = sorted(set(image['gt_label']))
    labels = dict(metainfo=dict(classes=['a', 'b', 'c']), data_list=images)
    (tmp_path / 'data' / 'labels.json').write_text(json.dumps(labels))
    (tmp_path / 'train.py').write_text(SCRIPT)
    return tmp_path


@pytest.mark.parametrize(
    ('head', 'extra'),
    [
        ('MultiLabelLinearClsHead', ''),
        ('CSRAClsHead', 'num_heads=1, lam=0.1,'),
        ('mmml_losses.MultiLabelHead', ''),
    ],
)
def test_mmpretrains_runner_trains_with_our_loss(project, head, extra):
    config = CONFIG.format(head=head, extra=extra)
    if head == 'CSRAClsHead':
        config = config.replace("    neck=dict(type='GlobalAveragePooling'),\n", '')
    (project / 'config.py').write_text(config)
    done = subprocess.run([sys.executable, '-W', 'ignore', 'train.py'], cwd=project, capture_output=True, text=True)
    output = done.stdout + done.stderr
    assert done.returncode == 0, output[-3000:]
    assert 'Epoch(val) [2]' in output
    for name in ('multi-label/f1-score', 'multi-label/mAP', 'multi-label/ACE'):
        assert name in output
    assert (project / 'work_dir' / 'epoch_2.pth').is_file()
