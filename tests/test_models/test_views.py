"""The classifier for several views: its loss, its batch norm, and its errors."""

from itertools import combinations

import pytest
import torch
from mmengine.config import Config, ConfigDict
from mmpretrain.registry import MODELS
from mmpretrain.structures import DataSample

from mmml_losses.losses import LASDLoss
from tests.conftest import ROOT
from tests.helpers.training import assert_resumes

ALPHA = 0.7
CONSISTENCY = dict(type='mmml_losses.ConsistencyRegularizer', loss_weight=ALPHA)
LASD = dict(type='mmml_losses.LASDLoss', expected_positives=1.5)
SETTINGS = dict(lasd=LASD, consistency=CONSISTENCY)


def build(loss=None, **changes):
    torch.manual_seed(0)
    model = dict(
        type='mmml_losses.MultiViewClassifier',
        data_preprocessor=dict(type='mmml_losses.MultiLabelPreprocessor', num_classes=4),
        backbone=dict(type='ResNet', depth=18, base_channels=4, stem_channels=4, zero_init_residual=False),
        neck=dict(type='GlobalAveragePooling'),
        head=dict(
            type='mmml_losses.MultiLabelHead',
            num_classes=4,
            in_channels=32,
            loss=loss or dict(type='mmml_losses.SumLoss', losses=SETTINGS),
            init_cfg=dict(type='Normal', layer='Linear', std=1.0),
        ),
    )
    model = MODELS.build({**model, **changes})
    model.init_weights()
    return model


def views(count=3, size=32):
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(5, 3, size, size, generator=generator) for _ in range(count)]


def samples():
    return [DataSample().set_gt_label(label) for label in ([0], [3], [1], [2], [0])]


def targets():
    return torch.eye(4)[[0, 3, 1, 2, 0]]


@pytest.mark.parametrize('count', [2, 3])
def test_the_loss_is_that_of_the_first_view_and_of_each_pair(count):
    inputs, model = views(count), build().eval()
    probabilities = [model(view).sigmoid() for view in inputs]
    pairs = sum(((one - other) ** 2).sum() / 5 for one, other in combinations(probabilities, 2))
    losses = model.loss(inputs, samples())
    torch.testing.assert_close(losses['consistency'], ALPHA * pairs)
    torch.testing.assert_close(losses['lasd'], LASDLoss(expected_positives=1.5)(model(inputs[0]), targets()))
    torch.testing.assert_close(losses['loss'], losses['lasd'] + losses['consistency'])
    assert losses['consistency'] > 0


def test_views_share_the_statistics_of_batch_norm():
    model, inputs = build(), views()
    norm = model.backbone.bn1
    model.loss(inputs, samples())
    stem = model.backbone.conv1(torch.cat(inputs))
    torch.testing.assert_close(norm.running_mean, 0.1 * stem.mean(dim=(0, 2, 3)))
    assert norm.num_batches_tracked == 1


def test_equal_views_have_no_loss():
    image = views(1)[0]
    assert build().loss([image, image.clone(), image.clone()], samples())['consistency'] < 1e-8


def test_gradients_reach_every_parameter_and_every_view():
    model, inputs = build(), [view.requires_grad_() for view in views()]
    model.loss(inputs, samples())['loss'].backward()
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in model.parameters())
    assert all(view.grad.any() for view in inputs)


def test_half_precision_trains():
    model = build()
    with torch.autocast('cpu', dtype=torch.bfloat16):
        loss = model.loss(views(), samples())['loss']
    loss.backward()
    assert loss.dtype == torch.float32
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


def test_single_images_are_those_of_mmpretrains_classifier():
    model = build(loss=LASD).eval()
    plain = build(loss=LASD, type='ImageClassifier').eval()
    (image,) = views(1)
    assert model.loss(image, samples())['loss'] == plain.loss(image, samples())['loss']
    for one, other in zip(model.predict(image), plain.predict(image), strict=True):
        assert torch.equal(one.pred_score, other.pred_score)


@pytest.mark.parametrize('head', ['MultiLabelLinearClsHead', 'CSRAClsHead'])
def test_heads_of_mmpretrain_compare_views(head):
    settings = dict(num_heads=1, lam=0.1) if head == 'CSRAClsHead' else {}
    loss = dict(type='mmml_losses.SumLoss', losses=SETTINGS)
    settings |= dict(type=head, num_classes=4, in_channels=32, loss=loss)
    changes = dict(neck=None) if head == 'CSRAClsHead' else {}
    assert build(head=settings, **changes).loss(views(), samples())['loss'].isfinite()


@pytest.mark.parametrize(
    ('loss', 'named'),
    [(LASD, 'LASDLoss'), (dict(type='mmml_losses.SumLoss', losses=dict(lasd=LASD)), 'SumLoss')],
)
def test_a_loss_that_would_leave_views_out_is_rejected(loss, named):
    with pytest.raises(ValueError, match=rf'loss must have a mmml_losses\.ConsistencyRegularizer .*, got {named}'):
        build(loss=loss).loss(views(), samples())


def test_single_images_are_rejected_by_a_loss_that_compares_views():
    with pytest.raises(ValueError, match='views must be the logits of one or two more views'):
        build().loss(views(1)[0], samples())


def test_views_of_different_sizes_are_rejected():
    inputs = [*views(1), *views(1, size=48)]
    with pytest.raises(ValueError, match=r'inputs must be views of one shape, got \(5, 3, 32, 32\) and \(5, 3, 48, 48'):
        build().loss(inputs, samples())


def test_views_are_rejected_outside_of_training():
    with pytest.raises(ValueError, match='inputs must be single images outside of training, got 3 views'):
        build().predict(views())


@pytest.fixture
def views_run(small_run):
    """Return a function that makes a config of a short training on digit scenes with three views."""

    def make() -> Config:
        cfg = small_run('bce_digits.py', max_epochs=2)
        with_views = Config.fromfile(ROOT / 'configs' / '_base_' / 'datasets' / 'digit_scenes_views.py')
        cfg.data_preprocessor = with_views.data_preprocessor
        pack = dict(type='PackInputs', meta_keys=('sample_idx', 'img_path'))
        with_views.train_pipeline[-1].pack = pack
        cfg.train_dataloader.dataset.pipeline = with_views.train_pipeline
        cfg.train_dataloader.dataset.indices = 32
        cfg.model.type = 'mmml_losses.MultiViewClassifier'
        cfg.model.head.loss = ConfigDict(type='mmml_losses.SumLoss', losses=SETTINGS)
        return cfg

    return make


def test_a_runner_trains_on_views_and_resumes(views_run):
    runner = assert_resumes(views_run)
    hub = runner.message_hub
    assert hub.get_scalar('train/consistency').current() > 0
    assert hub.get_scalar('val/multi-label/mAP@class').current() > 0
