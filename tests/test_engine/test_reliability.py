import cv2
import numpy as np
import pytest
import torch
from mmengine.hooks import LoggerHook
from mmengine.model import BaseModel
from mmengine.registry import HOOKS as ROOT_HOOKS
from mmengine.runner import Runner
from torch.utils.data import Dataset

from mmml_losses.engine import ReliabilityDiagramHook
from mmml_losses.engine.hooks import reliability as reliability_hook
from mmml_losses.engine.hooks.reliability import reliability_image
from mmml_losses.evaluation import CalibrationError, MultiLabelAP


class Points(Dataset):
    """Points with two labels each."""

    metainfo = {'classes': ('left', 'low')}

    def __len__(self):
        return 12

    def __getitem__(self, index):
        point = torch.tensor([index / 11, (index * 5 % 12) / 11])
        return {'inputs': point, 'data_samples': (point < 0.5).long()}


class Logistic(BaseModel):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(2, 2)

    def forward(self, inputs, data_samples, mode='tensor'):
        logits = self.linear(torch.stack(list(inputs)))
        labels = torch.stack(list(data_samples))
        if mode == 'loss':
            return {'loss': torch.nn.functional.binary_cross_entropy_with_logits(logits, labels.float())}
        return [{'pred_score': score, 'gt_score': label} for score, label in zip(logits.sigmoid(), labels, strict=True)]


def make_runner(work_dir, hook, metrics, training=None, backend='LocalVisBackend'):
    def loader():
        return {
            'dataset': Points(),
            'batch_size': 4,
            'num_workers': 0,
            'sampler': {'type': 'DefaultSampler', 'shuffle': False},
            'collate_fn': {'type': 'pseudo_collate'},
        }

    training = training or {'by_epoch': True, 'max_epochs': 4}
    return Runner(
        Logistic(),
        str(work_dir),
        train_dataloader=loader(),
        val_dataloader=loader(),
        train_cfg=training,
        val_cfg={},
        val_evaluator=list(metrics),
        optim_wrapper={'optimizer': {'type': 'SGD', 'lr': 0.1}},
        custom_hooks=[hook],
        default_hooks={'checkpoint': None, 'logger': {'type': 'LoggerHook', 'log_metric_by_epoch': False}},
        visualizer={'type': 'Visualizer', 'vis_backends': [{'type': backend}], 'name': f'{work_dir}'},
        log_level='ERROR',
        experiment_name=work_dir.name,
    )


def pictures_in(work_dir):
    return {path.name: cv2.imread(str(path)) for path in sorted(work_dir.glob('*/vis_data/vis_image/*.png'))}


def test_each_validation_leaves_a_picture_with_its_epoch(tmp_path):
    metric = CalibrationError()
    hook = {'type': 'mmml_losses.ReliabilityDiagramHook', 'interval': 2, 'dpi': 50}
    make_runner(tmp_path, hook, [MultiLabelAP(), metric]).train()
    pictures = pictures_in(tmp_path)
    assert list(pictures) == ['reliability_2.png', 'reliability_4.png']
    assert pictures['reliability_2.png'].shape == (360, 300, 3)
    # The metric still holds the bins of the last validation.
    np.testing.assert_array_equal(pictures['reliability_4.png'][..., ::-1], reliability_image(metric, dpi=50))


def test_tensorboard_shows_the_picture(tmp_path):
    accumulator = pytest.importorskip('tensorboard.backend.event_processing.event_accumulator')
    metric = CalibrationError()
    training = {'by_epoch': True, 'max_epochs': 2}
    runner = make_runner(tmp_path, ReliabilityDiagramHook(dpi=50), [metric], training, 'TensorboardVisBackend')
    runner.train()
    runner.visualizer.close()
    events = accumulator.EventAccumulator(str(next(tmp_path.glob('*/vis_data'))), {'images': 0}).Reload()
    images = events.Images('reliability')
    assert [image.step for image in images] == [1, 2]
    drawn = cv2.imdecode(np.frombuffer(images[-1].encoded_image_string, np.uint8), cv2.IMREAD_COLOR)
    np.testing.assert_array_equal(drawn[..., ::-1], reliability_image(metric, dpi=50))


def test_iterations_count_where_there_are_no_epochs(tmp_path):
    training = {'by_epoch': False, 'max_iters': 6, 'val_interval': 3}
    make_runner(tmp_path, ReliabilityDiagramHook(dpi=40), [CalibrationError()], training).train()
    assert list(pictures_in(tmp_path)) == ['reliability_3.png', 'reliability_6.png']


def test_a_validation_alone_is_drawn_as_step_0(tmp_path):
    make_runner(tmp_path, ReliabilityDiagramHook(dpi=40), [CalibrationError()]).val()
    assert list(pictures_in(tmp_path)) == ['reliability_0.png']


def test_several_metrics_get_a_picture_each(tmp_path):
    metrics = [CalibrationError(), CalibrationError(binning='mass', prefix='mass')]
    make_runner(tmp_path, ReliabilityDiagramHook(dpi=40), metrics).val()
    assert list(pictures_in(tmp_path)) == [
        'reliability_mass_CalibrationError_0.png',
        'reliability_multi-label_CalibrationError_0.png',
    ]


@pytest.mark.parametrize('start', ['train', 'val'])
def test_a_config_without_the_metric_is_rejected_before_anything_is_computed(tmp_path, start, monkeypatch):
    monkeypatch.setattr(Logistic, 'forward', None)
    runner = make_runner(tmp_path, ReliabilityDiagramHook(), [MultiLabelAP()])
    with pytest.raises(
        ValueError,
        match=r'needs a CalibrationError among the metrics of val_evaluator, got MultiLabelAP: add .*\.CalibrationError'
        r".*, or dict\(type='mmml_losses\.DetectionCalibrationError'\) for a detector",
    ):
        getattr(runner, start)()


def test_a_training_without_validation_logs_it(tmp_path, monkeypatch):
    messages = []
    monkeypatch.setattr(reliability_hook, 'print_log', lambda message, **kwargs: messages.append(message))
    runner = make_runner(tmp_path, ReliabilityDiagramHook(), [CalibrationError()])
    runner._val_loop = None
    ReliabilityDiagramHook().before_train(runner)
    assert messages == ['ReliabilityDiagramHook: there is no validation, and nothing to draw']


def test_hook_is_registered_and_runs_after_the_log():
    assert isinstance(ROOT_HOOKS.build({'type': 'mmml_losses.ReliabilityDiagramHook'}), ReliabilityDiagramHook)
    assert ReliabilityDiagramHook.priority == 'VERY_LOW'
    assert LoggerHook.priority == 'BELOW_NORMAL'


def test_bad_arguments_are_rejected():
    with pytest.raises(ValueError, match='interval must be at least 1, got 0'):
        ReliabilityDiagramHook(interval=0)
    with pytest.raises(ValueError, match='dpi must be at least 1, got 0'):
        ReliabilityDiagramHook(dpi=0)
