"""From collated samples to batches: several views, unknown labels, and augmentations that unite labels."""

import os
import subprocess
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from mmengine.config import Config, ConfigDict
from mmengine.dataset import default_collate, pseudo_collate
from mmengine.runner import Runner
from mmpretrain.registry import BATCH_AUGMENTS, MODELS
from mmpretrain.structures import DataSample

from mmml_losses.losses import LASDLoss, SumLoss
from mmml_losses.models import MultiLabelPreprocessor, UnionMixup, UnionMosaic
from mmml_losses.models.batch_augments import union_labels

CONFIGS = Path(__file__).resolve().parents[2] / 'configs'
SETTINGS = dict(num_classes=4, mean=[10.0, 20.0, 30.0], std=[2.0, 4.0, 5.0], to_rgb=True)


def preprocessor(**kwargs) -> MultiLabelPreprocessor:
    return MODELS.build(dict(type='mmml_losses.MultiLabelPreprocessor', **{**SETTINGS, **kwargs}))


def plain_preprocessor(**kwargs):
    return MODELS.build(dict(type='ClsDataPreprocessor', **{**SETTINGS, **kwargs}))


def images(count: int, seed: int = 0, side: int = 8) -> torch.Tensor:
    return torch.randint(0, 256, (count, 3, side, side), generator=torch.Generator().manual_seed(seed))


def normalised(pixels: torch.Tensor) -> torch.Tensor:
    mean, std = (torch.tensor(SETTINGS[name]).view(3, 1, 1) for name in ('mean', 'std'))
    return (pixels.flip(1).float() - mean) / std


def data_sample(position: int, labels=None, score=None, **meta) -> DataSample:
    sample = DataSample(metainfo=dict(sample_idx=position, **meta))
    if labels is not None:
        sample.set_gt_label(labels)
    return sample if score is None else sample.set_gt_score(torch.tensor(score))


def view_samples(count: int, views: int) -> list[dict]:
    return [
        dict(
            inputs=[images(count, seed)[position] for seed in range(views)],
            data_samples=data_sample(position, [position % 4], num_views=views),
        )
        for position in range(count)
    ]


@pytest.mark.parametrize('collate', [default_collate, pseudo_collate])
@pytest.mark.parametrize(('count', 'views'), [(2, 2), (3, 2), (3, 3), (4, 3), (1, 2)])
def test_views_become_a_list_of_batches_each_normalised_as_images_are(collate, count, views):
    batch = preprocessor()(collate(view_samples(count, views)), training=True)
    assert len(batch['inputs']) == views
    for seed, view in enumerate(batch['inputs']):
        torch.testing.assert_close(view, normalised(images(count, seed)))
    assert [sample.gt_label.tolist() for sample in batch['data_samples']] == [[i % 4] for i in range(count)]
    assert [sample.sample_idx for sample in batch['data_samples']] == list(range(count))


@pytest.mark.parametrize('collate', [default_collate, pseudo_collate])
def test_single_images_are_processed_as_in_mmpretrain(collate):
    samples = [dict(inputs=image, data_samples=data_sample(0, [1])) for image in images(4)]
    batch, plain = preprocessor()(collate(samples)), plain_preprocessor()(collate(samples))
    assert torch.equal(batch['inputs'], plain['inputs'])
    torch.testing.assert_close(batch['inputs'], normalised(images(4)))
    assert 'gt_score' not in batch['data_samples'][0]
    assert torch.equal(preprocessor()(dict(inputs=images(2)))['inputs'], batch['inputs'][:2])


def test_views_of_different_sizes_stay_apart():
    batch = preprocessor()(dict(inputs=[images(2), images(2, side=6)], data_samples=[data_sample(0), data_sample(1)]))
    assert [tuple(view.shape) for view in batch['inputs']] == [(2, 3, 8, 8), (2, 3, 6, 6)]


def test_views_of_another_number_of_images_than_samples_are_rejected():
    with pytest.raises(ValueError, match='inputs must have 2 images in each view, got 3'):
        preprocessor()(dict(inputs=[images(2), images(3)], data_samples=[data_sample(0, [0]), data_sample(1, [1])]))


@pytest.mark.parametrize('collate', [default_collate, pseudo_collate])
def test_mmpretrains_preprocessor_rejects_views_instead_of_stacking_them_wrongly(collate):
    with pytest.raises(ValueError, match=r"of type 'mmml_losses\.MultiLabelPreprocessor' for several views of an"):
        plain_preprocessor()(collate(view_samples(4, 2)))


def test_a_model_runs_over_views_and_trains_by_their_consistency():
    torch.manual_seed(0)
    model = MODELS.build(
        dict(
            type='ImageClassifier',
            backbone=dict(type='ResNet', depth=18, base_channels=8, stem_channels=8),
            neck=dict(type='GlobalAveragePooling'),
            head=dict(
                type='mmml_losses.MultiLabelHead',
                num_classes=4,
                in_channels=64,
                loss=dict(
                    type='mmml_losses.SumLoss',
                    losses=dict(
                        lasd=dict(type='mmml_losses.LASDLoss'),
                        consistency=dict(type='mmml_losses.ConsistencyRegularizer', loss_weight=0.5),
                    ),
                ),
            ),
            data_preprocessor=dict(type='mmml_losses.MultiLabelPreprocessor', **SETTINGS),
        )
    )
    batch = model.data_preprocessor(default_collate(view_samples(4, 3)), training=True)
    image, *views = (model(view) for view in batch['inputs'])
    target = torch.eye(4)
    parts = model.head.loss_module.parts(image, target, views=views, epoch=0)
    outputs = [logits.sigmoid() for logits in (image, *views)]
    pairs = [(outputs[one] - outputs[two]).square().sum(dim=1) for one, two in ((0, 1), (0, 2), (1, 2))]
    torch.testing.assert_close(parts['consistency'], 0.5 * sum(pairs).mean())
    torch.testing.assert_close(parts['lasd'], LASDLoss()(image, target, epoch=0))
    assert parts['consistency'] > 0
    sum(parts.values()).backward()
    assert all(torch.isfinite(weight.grad).all() for weight in model.parameters())
    assert isinstance(model.head.loss_module, SumLoss)


class SeveralViews(MODELS.get('mmpretrain.ImageClassifier')):
    """The smallest classifier that trains on views."""

    def loss(self, inputs: list[torch.Tensor], data_samples: list[DataSample]) -> dict:
        image, *views = (self.head(self.extract_feat(view)) for view in inputs)
        return self.head._get_loss(image, data_samples, views=views)


@pytest.mark.parametrize('num_views', [2, 3])
def test_a_runner_trains_on_the_config_with_views_and_validates_on_single_images(small_run, num_views):
    cfg = small_run('bce_digits.py')
    views = Config.fromfile(CONFIGS / '_base_' / 'datasets' / 'digit_scenes_views.py')
    packing = views.train_pipeline[-1]
    assert len(packing.views) == 3
    packing.views = packing.views[:num_views]
    cfg.data_preprocessor = views.data_preprocessor
    cfg.train_dataloader.dataset.update(pipeline=views.train_pipeline, indices=32)
    cfg.model.type = f'{__name__}.SeveralViews'
    cfg.model.head.loss = ConfigDict(
        type='mmml_losses.SumLoss',
        losses=dict(
            lasd=dict(type='mmml_losses.LASDLoss'), consistency=dict(type='mmml_losses.ConsistencyRegularizer')
        ),
    )
    runner = Runner.from_cfg(cfg)
    runner.train()
    assert runner.message_hub.get_scalar('train/consistency').current() > 0
    assert 0 < runner.message_hub.get_scalar('val/multi-label/mAP@class').current() <= 100


def test_in_a_batch_in_which_some_have_scores_all_get_them():
    samples = [data_sample(0, [0, 0, 2]), data_sample(1, [1], [-1.0, 1.0, 0.0, 0.5]), data_sample(2, [])]
    batch = preprocessor()(dict(inputs=images(3), data_samples=samples))
    scores = [sample.gt_score.tolist() for sample in batch['data_samples']]
    assert scores == [[1, 0, 1, 0], [-1, 1, 0, 0.5], [0, 0, 0, 0]]


@pytest.mark.parametrize('to_onehot', [True, False])
@pytest.mark.parametrize('first', [0, 1])
def test_mmpretrains_preprocessor_rejects_scores_of_some_samples_only(to_onehot, first):
    samples = [data_sample(0, [0]), data_sample(1, [1], [-1.0, 1.0, 0.0, -1.0])]
    with pytest.raises(ValueError, match='for batches in which only some samples have gt_score'):
        plain_preprocessor(to_onehot=to_onehot)(dict(inputs=images(2), data_samples=samples[first:] + samples[:first]))


def test_samples_without_labels_pass():
    batch = preprocessor(to_onehot=True)(dict(inputs=images(2), data_samples=[DataSample(), DataSample()]))
    assert not any('gt_score' in sample for sample in batch['data_samples'])


# Every combination of two and of three labels, with the result of the rule.
@pytest.mark.parametrize('sources', [*product([1, 0, -1], repeat=2), *product([1, 0, -1], repeat=3)])
def test_a_united_label_is_positive_if_any_is_and_negative_only_if_all_are(sources):
    expected = 1 if 1 in sources else 0 if set(sources) == {0} else -1
    assert union_labels(*(torch.tensor([[float(source)]]) for source in sources)).item() == expected


@pytest.mark.parametrize(
    ('one', 'other', 'expected'),
    [(0.3, 0.6, 0.6), (0.3, 0, 0.3), (0.3, 1, 1), (0.9, -1, -1), (-1, 0.2, -1), (1, -1, 1)],
)
def test_of_soft_labels_the_largest_counts_unless_one_is_unknown(one, other, expected):
    assert union_labels(torch.tensor([one]), torch.tensor([other])).item() == pytest.approx(expected)


LABELS = torch.tensor([[1, 0, 0, -1], [0, 0, 1, 0], [-1, 0, 0, 0], [0, 0, -1, -1.0]])


@pytest.mark.parametrize('seed', range(5))
def test_mixup_unites_the_labels_of_the_two_images_that_it_blends(seed):
    np.random.seed(seed)
    torch.manual_seed(seed)
    # In pixel i only image i is not 0.
    pixels = torch.eye(4, dtype=torch.float64).view(4, 1, 2, 2) * 10
    mixed, labels = UnionMixup()(pixels, LABELS)
    shares = mixed.flatten(1) / 10
    torch.testing.assert_close(shares.sum(dim=1), torch.ones(4, dtype=torch.float64))
    assert ((shares == 0) | (shares >= 0.3)).all()
    for share, label in zip(shares, labels, strict=True):
        assert torch.equal(label, union_labels(*LABELS[share > 0]))
    assert (shares.diagonal() > 0).all()  # each image stays in its place


@pytest.mark.parametrize('seed', range(5))
def test_a_mosaic_shows_four_whole_images_and_has_their_labels(seed):
    np.random.seed(seed)
    torch.manual_seed(seed)
    pixels = torch.arange(4.0).view(4, 1, 1, 1).expand(4, 3, 20, 30).clone()
    mosaic, labels = UnionMosaic()(pixels, LABELS)
    assert mosaic.shape == pixels.shape
    for position, (scene, label) in enumerate(zip(mosaic, labels, strict=True)):
        corners = [scene[0, row, column].round().int().item() for row, column in product((0, -1), (0, -1))]
        assert corners[0] == position
        torch.testing.assert_close(scene, scene.round(), atol=1e-4, rtol=0)  # panes do not run into each other
        assert torch.equal(label, union_labels(*LABELS[corners]))
        heights = [(scene[0, :, column].round() == scene[0, 0, column].round()).sum().item() for column in (0, -1)]
        assert all(height == 20 or 8 <= height <= 12 for height in heights)


def test_a_pane_is_the_whole_image_and_not_a_part_of_it():
    ramp = torch.linspace(0, 1, 32).expand(1, 1, 32, 32).clone()
    mosaic, _ = UnionMosaic(smallest_pane=0.5)(ramp, torch.ones(1, 2))
    torch.testing.assert_close(mosaic[0, 0, 0, :16], torch.linspace(0, 1, 16), atol=0.03, rtol=0)
    assert torch.equal(mosaic[..., :16], mosaic[..., 16:])
    assert torch.equal(mosaic[..., :16, :], mosaic[..., 16:, :])


@pytest.mark.parametrize('augment', [UnionMixup(), UnionMosaic()])
def test_joined_batches_are_drawn_by_the_seed_and_leave_their_sources_as_they_are(augment):
    pixels, labels = torch.rand(4, 3, 8, 8), LABELS.clone()
    before = pixels.clone()

    def draw(seed: int) -> torch.Tensor:
        np.random.seed(seed)
        torch.manual_seed(seed)
        return augment(pixels, labels)[0]

    assert torch.equal(draw(0), draw(0))
    assert not torch.equal(draw(0), draw(1))
    assert torch.equal(pixels, before)
    assert torch.equal(labels, LABELS)


@pytest.mark.parametrize('augment', [UnionMixup(), UnionMosaic()])
def test_invalid_labels_are_not_united(augment):
    with pytest.raises(ValueError, match=r'target must be 1, 0, -1 for unknown, or between 0 and 1, got 2\.0'):
        augment(torch.rand(2, 3, 8, 8), torch.tensor([[0, 2.0], [1, 0]]))


def test_wrong_settings_are_rejected():
    with pytest.raises(ValueError, match='alpha must be above 0, got 0'):
        UnionMixup(alpha=0)
    with pytest.raises(ValueError, match=r'smallest_share must be in \[0, 0\.5\], got 0\.6'):
        UnionMixup(smallest_share=0.6)
    with pytest.raises(ValueError, match=r'smallest_pane must be in \(0, 0\.5\], got 0'):
        UnionMosaic(smallest_pane=0)
    with pytest.raises(ValueError, match='2 x 2 pixels or more for a mosaic, got 1 x 8'):
        UnionMosaic()(torch.rand(2, 3, 1, 8), torch.ones(2, 3))
    with pytest.raises(ValueError, match='num_classes must be given with batch_augments or to_onehot, got None'):
        preprocessor(num_classes=None, batch_augments=dict(augments=dict(type='mmml_losses.UnionMixup')))


def batch_of_samples() -> dict:
    samples = [data_sample(0, [0, 0]), data_sample(1, [1], [-1.0, 1, 0, -1]), data_sample(2, []), data_sample(3, [3])]
    return dict(inputs=images(4), data_samples=samples)


@pytest.mark.parametrize('name', ['UnionMixup', 'UnionMosaic'])
def test_augmentations_work_by_config_on_labels_of_both_kinds(name):
    np.random.seed(0)
    torch.manual_seed(0)
    augmented = preprocessor(batch_augments=dict(augments=dict(type=f'mmml_losses.{name}')))
    batch = augmented(batch_of_samples(), training=True)
    assert not torch.equal(batch['inputs'], normalised(images(4)))
    own = torch.tensor([[1, 0, 0, 0], [-1, 1, 0, -1], [0, 0, 0, 0], [0, 0, 0, 1.0]])
    for sample, row in zip(batch['data_samples'], own, strict=True):
        assert ((sample.gt_score == 1) | (row != 1)).all()  # no positive is lost
        assert set(sample.gt_score.tolist()) <= {1, 0, -1}
        assert sample.gt_label.tolist() == (sample.gt_score == 1).nonzero().flatten().tolist()
        assert 'sample_idx' not in sample


def test_nothing_is_joined_outside_of_training():
    augmented = preprocessor(batch_augments=dict(augments=dict(type='mmml_losses.UnionMixup')))
    batch = augmented(batch_of_samples())
    torch.testing.assert_close(batch['inputs'], normalised(images(4)))
    assert [sample.sample_idx for sample in batch['data_samples']] == [0, 1, 2, 3]


def test_views_are_not_joined():
    augmented = preprocessor(batch_augments=dict(augments=dict(type='mmml_losses.UnionMixup')))
    with pytest.raises(ValueError, match='batch_augments must be None for several views'):
        augmented(default_collate(view_samples(2, 2)), training=True)


@pytest.mark.parametrize('make', [preprocessor, plain_preprocessor])
@pytest.mark.parametrize('name', ['Mixup', 'CutMix', 'ResizeMix'])
def test_mmpretrains_augmentations_reject_unknown_labels_at_any_probability(make, name):
    # A probability of 0: the error must not depend on random numbers.
    augmented = make(batch_augments=dict(augments=[dict(type=name, alpha=1.0)], probs=[0.0]))
    samples = [data_sample(i, score=row.tolist()) for i, row in enumerate(LABELS)]
    with pytest.raises(ValueError, match=rf'UnionMosaic for unknown labels \(-1\), got {name}, which would blend -1'):
        augmented(dict(inputs=images(4), data_samples=samples), training=True)


def test_without_the_check_a_positive_and_an_unknown_label_would_blend_into_a_negative_one(monkeypatch):
    """Show why no loss can detect it: the mean of 1 and -1 is 0."""
    monkeypatch.setattr(np.random, 'beta', lambda *args: 0.5)
    monkeypatch.setattr(torch, 'randperm', lambda count: torch.tensor([1, 0]))
    _, blended = BATCH_AUGMENTS.build(dict(type='Mixup', alpha=1.0))(
        torch.rand(2, 3, 4, 4), torch.tensor([[1.0], [-1.0]])
    )
    assert blended.tolist() == [[0], [0]]


@pytest.mark.parametrize('name', ['Mixup', 'CutMix'])
def test_mmpretrains_augmentations_still_blend_known_labels(name):
    np.random.seed(0)
    torch.manual_seed(0)
    augmented = preprocessor(batch_augments=dict(augments=dict(type=name, alpha=1.0)))
    samples = [data_sample(i, [i]) for i in range(4)]
    batch = augmented(dict(inputs=images(4), data_samples=samples), training=True)
    scores = torch.stack([sample.gt_score for sample in batch['data_samples']])
    assert ((scores > 0) & (scores < 1)).any()
    torch.testing.assert_close(scores.sum(dim=1), torch.ones(4))


@pytest.fixture
def joined_run(small_run):
    """Return a function that makes a Runner of a short training with mixup and mosaics on some of the batches."""

    def make(loss: str, **settings) -> Runner:
        cfg = small_run('bce_digits.py')
        cfg.train_dataloader.dataset.indices = 32
        cfg.data_preprocessor.update(
            type='mmml_losses.MultiLabelPreprocessor',
            batch_augments=dict(
                augments=[dict(type='mmml_losses.UnionMixup'), dict(type='mmml_losses.UnionMosaic')], probs=[0.5, 0.4]
            ),
        )
        cfg.model.head.loss = ConfigDict(type=f'mmml_losses.{loss}', **settings)
        return Runner.from_cfg(cfg)

    return make


def test_a_training_with_mixup_and_mosaics_runs(joined_run):
    runner = joined_run('LSEPLoss')  # not defined for soft labels: unions stay 1 and 0
    runner.train()
    assert np.isfinite(runner.message_hub.get_scalar('train/loss').current())


@pytest.mark.parametrize(
    ('loss', 'settings'),
    [
        ('LargeLossCorrection', dict(permanent=True, relative_increase=0.05)),
        ('EMAPLLoss', dict(warmup_epochs=1)),
        ('ROLELoss', dict(num_samples=32, num_classes=10, expected_positives=3.0)),
    ],
)
def test_losses_that_remember_samples_reject_joined_images_in_the_first_step(joined_run, loss, settings):
    runner = joined_run(loss, **settings)
    with pytest.raises(ValueError, match=f'sample_idx must be given to {loss}'):
        runner.train()
    assert runner.iter == 0


ONLY_DATA = """
import mmml_losses
import torch
from mmengine.registry import DATASETS, MODELS, DefaultScope

DATASETS.build(dict(type='mmml_losses.CocoMultiLabel', ann_file='none.json', lazy_init=True))

import mmpretrain.models
from mmpretrain.structures import DataSample

with DefaultScope.overwrite_default_scope('mmpretrain'):
    loss = dict(type='CrossEntropyLoss', use_sigmoid=True)
    head = MODELS.build(dict(type='MultiLabelLinearClsHead', num_classes=2, in_channels=3, loss=loss))
    cutmix = dict(augments=[dict(type='CutMix', alpha=1.0)])
    preprocessor = MODELS.build(dict(type='ClsDataPreprocessor', num_classes=2, batch_augments=cutmix))
unknown = DataSample().set_gt_score(torch.tensor([1.0, -1.0]))
batch = dict(inputs=torch.zeros(1, 3, 8, 8), data_samples=[unknown])
for call in (lambda: head.loss((torch.zeros(1, 3),), [unknown]), lambda: preprocessor(batch, training=True)):
    try:
        call()
    except ValueError as error:
        print(error)
"""


def test_unknown_labels_are_kept_from_mmpretrain_where_only_the_data_is_ours():
    """Use a new process, in which only the name of a dataset loads parts of this package."""
    environment = {**os.environ, 'PYTHONPATH': str(CONFIGS.parent), 'OMP_NUM_THREADS': '1'}
    command = [sys.executable, '-W', 'ignore', '-c', ONLY_DATA]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    head, augment = done.stdout.strip().splitlines()[-2:]
    assert head.startswith('CrossEntropyLoss does not know unknown labels (-1): use a loss of mmml_losses')
    assert augment.startswith('batch_augments must be mmml_losses.UnionMixup or mmml_losses.UnionMosaic for unknown')
