"""A short training under each wrapper: it learns from the labels that the wrapper shows, and from nothing else."""

import numpy as np
import pytest
import torch
from mmengine.dataset import BaseDataset
from mmengine.hooks import Hook
from mmengine.registry import DATASETS
from mmengine.runner import Runner

from mmml_losses.datasets import read_label_changes, read_labels

SCENES = 'scenes'
# SCENES stands for the digit scenes themselves.
WRAPPERS = {
    'missing': dict(type='mmml_losses.MissingLabels', missing_ratio=0.8, dataset=SCENES),
    'missing_first_the_small': dict(
        type='mmml_losses.MissingLabels', missing_ratio=0.5, order='smallest_first', hidden='unknown', dataset=SCENES
    ),
    'single': dict(type='mmml_losses.SinglePositive', dataset=SCENES),
    'partial': dict(type='mmml_losses.PartialLabels', known_ratio=0.5, dataset=SCENES),
    'long_tailed': dict(type='mmml_losses.LongTailed', largest=12, smallest=2, dataset=SCENES),
    'nested': dict(
        type='mmml_losses.PartialLabels',
        known_ratio=0.7,
        dataset=dict(
            type='mmml_losses.MissingLabels',
            missing_ratio=0.5,
            dataset=dict(type='mmml_losses.LongTailed', largest=12, smallest=2, dataset=SCENES),
        ),
    ),
    'around_mmengines': dict(
        type='mmml_losses.SinglePositive',
        dataset=dict(type='ClassBalancedDataset', oversample_thr=0.3, dataset=SCENES),
    ),
    'inside_mmengines': dict(
        type='ConcatDataset',
        datasets=[
            dict(type='mmml_losses.SinglePositive', dataset=SCENES),
            dict(
                type='RepeatDataset',
                times=2,
                dataset=dict(type='mmml_losses.PartialLabels', known_ratio=0.5, dataset=SCENES),
            ),
        ],
    ),
}


def fill_in(node: object, scenes: dict) -> object:
    """Return the config of a wrapper around the scenes."""
    if node == SCENES:
        return scenes
    if isinstance(node, dict):
        return {key: fill_in(value, scenes) for key, value in node.items()}
    return [fill_in(each, scenes) for each in node] if isinstance(node, list) else node


class WithoutTruth(BaseDataset):
    """What a wrapped dataset shows, as the only labels that there are."""

    def __init__(self, wrapped: dict, pipeline: list):
        self.wrapped = DATASETS.build(wrapped)
        self.CLASSES = self.wrapped.metainfo['classes']
        super().__init__(metainfo=dict(self.wrapped.metainfo), pipeline=pipeline)

    def load_data_list(self) -> list[dict]:
        infos = [self.wrapped.get_data_info(idx) for idx in range(len(self.wrapped))]
        assert all('true_label' in info for info in infos)
        return [{key: value for key, value in info.items() if key != 'true_label'} for info in infos]


class Watch(Hook):
    """Notes what the loss is called with, which samples that was for, and the weights to begin with."""

    def __init__(self):
        self.targets, self.files, self.fields, self.weights = [], [], set(), {}

    def before_train(self, runner: Runner) -> None:
        self.weights = {key: weight.clone() for key, weight in trained_weights(runner).items()}
        runner.model.head.loss_module.register_forward_pre_hook(lambda _, args: self.targets.append(args[1].clone()))

    def before_train_iter(self, runner: Runner, batch_idx: int, data_batch: dict | None = None) -> None:
        for sample in data_batch['data_samples']:
            self.files.append(sample.img_path)
            self.fields.update(sample.all_keys())


def trained_weights(runner: Runner) -> dict[str, torch.Tensor]:
    return {key: weight for key, weight in runner.model.named_parameters() if weight.requires_grad}


@pytest.fixture
def train(small_run):
    """Trains an epoch on a few scenes, and returns the Runner and what was watched."""

    def run(name: str, without_truth: bool = False) -> tuple[Runner, Watch]:
        cfg = small_run('bce_digits.py', max_epochs=1)
        cfg.update(param_scheduler=None, val_dataloader=None, val_cfg=None, val_evaluator=None)
        cfg.data_preprocessor.type = 'mmml_losses.MultiLabelPreprocessor'
        dataset = fill_in(WRAPPERS[name], dict(cfg.train_dataloader.dataset.to_dict(), indices=32))
        if without_truth:
            dataset = dict(type=f'{__name__}.WithoutTruth', wrapped=dataset, pipeline=cfg.train_pipeline)
        cfg.train_dataloader.dataset = dataset
        cfg.experiment_name = f'{name}_{without_truth}'
        runner = Runner.from_cfg(cfg)
        watch = Watch()
        runner.register_hook(watch)
        runner.train()
        return runner, watch

    return run


@pytest.mark.parametrize('name', WRAPPERS)
def test_trains_on_the_observed_labels_and_on_nothing_else(train, name):
    runner, watch = train(name)
    assert np.isfinite(runner.message_hub.get_scalar('train/loss').current())
    assert not [key for key, weight in trained_weights(runner).items() if torch.equal(weight, watch.weights[key])]

    dataset = runner.train_dataloader.dataset
    files = [dataset.get_data_info(idx)['img_path'] for idx in range(len(dataset))]
    labels = read_labels(dataset).labels.astype(np.float32)
    targets = torch.cat(watch.targets).numpy()
    # Each sample came once, with its own labels: the rows of the epoch are the rows of the dataset in another order.
    assert sorted(zip(watch.files, map(tuple, targets), strict=True)) == sorted(
        zip(files, map(tuple, labels), strict=True)
    )
    changes = read_label_changes(dataset)
    # Otherwise the rows above could as well be the true ones, or those of all scenes.
    assert len(dataset) < len(changes.original) if name == 'long_tailed' else (changes.observed != changes.true).any()

    # A model that cannot know the true labels ends with the same weights, to the last bit.
    assert 'true_label' not in watch.fields
    unknowing, other = train(name, without_truth=True)
    assert all(torch.equal(one, two) for one, two in zip(watch.targets, other.targets, strict=True))
    state = unknowing.model.state_dict()
    for key, value in runner.model.state_dict().items():
        assert torch.equal(value, state[key]), key
