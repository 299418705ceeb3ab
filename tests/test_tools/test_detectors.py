"""Test the tools on a detector, from its training to the picture of its calibration."""

import json
from pathlib import Path

import pytest
from mmengine.config import Config
from PIL import Image

from mmml_losses.datasets import make_digit_scenes
from mmml_losses.evaluation import load_predictions
from mmml_losses.evaluation.functional.detection import are_detections
from tests.helpers.tools import run_tool

pytestmark = pytest.mark.needs_mmdet

ROOT = Path(__file__).resolve().parents[2]
CONFIG = ROOT / 'configs' / 'det' / 'retinanet_hill_digits.py'


@pytest.fixture(scope='module')
def options(tmp_path_factory):
    """Return flags for two iterations on few scenes."""
    pytest.importorskip('mmdet')
    scenes = Config.fromfile(CONFIG).scenes
    settings = dict(num_train=8, num_test=4)
    root = tmp_path_factory.mktemp('scenes') / 'made'
    make_digit_scenes(root, image_size=scenes.image_size, digit_size=scenes.digit_size, **settings)
    found = ['train_cfg.max_epochs=2', 'train_dataloader.batch_size=8', 'model.test_cfg.score_thr=-1']
    for name in ('train', 'val', 'test'):
        settings['data_root'] = root
        found += [f'{name}_dataloader.dataset.{key}={value}' for key, value in settings.items()]
    found += [f'{name}_evaluator.0.ann_file={root}/annotations/instances_test.json' for name in ('val', 'test')]
    return ['--cfg-options', *found]


@pytest.fixture(scope='module')
def trained(options, tmp_path_factory):
    """Train a config with ``--loss`` and return its folder."""
    folder = tmp_path_factory.mktemp('trained')
    run_tool('train.py', CONFIG, '--loss', 'spa', '--work-dir', folder, *options)
    return folder


def test_another_loss_trains(trained):
    loss = Config.fromfile(trained / CONFIG.name).model.bbox_head.loss_cls
    assert (loss.type, loss.use_sigmoid, loss.loss_weight) == ('mmml_losses.SPALoss', True, 0.25)
    assert 'lamb' not in loss
    assert (trained / 'epoch_2.pth').is_file()


def test_matched_detections_and_metrics_are_saved_and_drawn(trained, options, tmp_path):
    arguments = ('test.py', CONFIG, trained / 'epoch_2.pth', '--loss', 'spa', '--work-dir', tmp_path, '--out')
    run_tool(*arguments, tmp_path / 'predictions.npz', *options)
    found = load_predictions(tmp_path / 'predictions.npz')
    assert are_detections(found.class_names)
    assert found.num_samples == 4
    assert (found.labels >= 0).any()
    run_tool('analysis/reliability.py', f'SPA={tmp_path}', '--out', tmp_path / 'picture.png')
    with Image.open(tmp_path / 'picture.png') as picture:
        assert min(picture.size) > 200
    run_tool(*arguments, tmp_path / 'metrics.json', '--out-item', 'metrics', *options)
    metrics = json.loads((tmp_path / 'metrics.json').read_text())
    assert {'coco/bbox_mAP', 'detection/D-ECE'} <= set(metrics)
    assert metrics['details']['detection/DetectionCalibrationError']['num_images'] == 4


def test_a_config_with_nothing_but_the_loss_is_checked(options, tmp_path):
    config = tmp_path / 'bare.py'
    config.write_text(
        f"_base_ = '{CONFIG}'\ncustom_hooks = []\n"
        "model = dict(bbox_head=dict(loss_cls=dict(_delete_=True, type='mmml_losses.SPALoss')))\n"
    )
    with pytest.raises(SystemExit, match=r'bbox_head\.loss_cls must have use_sigmoid=True'):
        run_tool('train.py', config, '--work-dir', tmp_path, *options)


def test_tools_for_classifiers_reject_detectors_with_one_sentence(trained, options, tmp_path):
    checkpoint = trained / 'epoch_2.pth'
    with pytest.raises(
        SystemExit, match=r'retinanet_hill_digits\.py must be the config of a classifier, got a detector'
    ):
        run_tool('calibrate.py', CONFIG, checkpoint, '--work-dir', tmp_path, *options)
    labelling = ('pseudo_label.py', CONFIG, checkpoint, '--out', tmp_path / 'labels.json')
    for arguments in (labelling, ('self_train.py', CONFIG)):
        with pytest.raises(SystemExit, match='got a detector: pseudo labels are those of images, and have no boxes'):
            run_tool(*arguments, '--work-dir', tmp_path, *options)
    test = ('test.py', CONFIG, checkpoint, '--work-dir', tmp_path)
    with pytest.raises(SystemExit, match='--tta of a detector needs a tta_model and a tta_pipeline'):
        run_tool(*test, '--tta', *options)
    config = tmp_path / 'unmatched.py'
    config.write_text(f"_base_ = '{CONFIG}'\ntest_evaluator = [_base_.test_evaluator[0]]\n")
    with pytest.raises(SystemExit, match=r'a detector needs a metric that matches its detections: add .*Calibration'):
        run_tool('test.py', config, checkpoint, '--work-dir', tmp_path, '--out', tmp_path / 'p.npz', *options)
    assert not (tmp_path / 'p.npz').exists()
