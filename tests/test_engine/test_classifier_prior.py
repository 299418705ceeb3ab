"""Test that new classifiers of detectors start at one probability with every link."""

import pytest
import torch
from mmengine.model import BaseModel
from mmengine.runner import Runner
from torch import nn

from mmml_losses.engine.hooks.classifier_prior import start_classifiers
from mmml_losses.losses import BCELoss, FocalLoss, HillLoss, MultiLabelLoss, SPALoss
from tests.helpers.detectors import RECIPES, build_detector, detector_config, heads_of

SPA_BIAS = -0.5142  # (3/5) s(3v - 3) / ((3/5) s(3v - 3) + s(-v)) is 0.01 there, s being the sigmoid


def logits_of(head: nn.Module) -> list[nn.Module]:
    """Return the layers of a head that classify, by the names that MMDetection gives them."""
    names = ('retina_cls', 'conv_cls', 'atss_cls', 'cls_score', 'reppoints_cls_out', 'fc_cls', 'cls_branches')
    layers = [layer for name, layer in head.named_modules() if set(name.split('.')) & {*names}]
    return [layer for layer in layers if isinstance(layer, (nn.Conv2d, nn.Linear))]


def classifier(loss: MultiLabelLoss, bias: float) -> nn.ModuleDict:
    head = nn.Module()
    head.conv_cls, head.conv_loc = nn.Linear(2, 3), nn.Linear(2, 3)
    head.loss_cls, head.num_classes = loss, 3
    for layer in (head.conv_cls, head.conv_loc):
        nn.init.constant_(layer.bias, bias)
    return nn.ModuleDict(dict(bbox_head=head))


def sigmoid_bias() -> float:
    return float(torch.tensor(0.01, dtype=torch.float64).logit())


def test_the_classifier_of_spa_reads_as_a_hundredth():
    model = classifier(SPALoss(), sigmoid_bias())
    assert start_classifiers(model) == {'bbox_head.conv_cls': pytest.approx(SPA_BIAS, abs=1e-4)}
    head = model.bbox_head
    torch.testing.assert_close(head.loss_cls.probabilities(head.conv_cls.bias), torch.full((3,), 0.01))
    assert head.conv_loc.bias.tolist() == pytest.approx([sigmoid_bias()] * 3)
    assert start_classifiers(model) == {}


@pytest.mark.parametrize('scale', ['temperature', 'platt'])
def test_a_link_on_top_of_that_of_spa_is_no_other(scale):
    model = classifier(SPALoss(link=dict(type=f'mmml_losses.{scale.title()}Link')), sigmoid_bias())
    assert start_classifiers(model) == {'bbox_head.conv_cls': pytest.approx(SPA_BIAS, abs=1e-4)}


def test_every_class_starts_at_the_bias_of_its_own_link():
    model = classifier(SPALoss(link=dict(type='mmml_losses.VectorLink', num_classes=3)), sigmoid_bias())
    head = model.bbox_head
    head.loss_cls.link.bias.copy_(torch.tensor([0.0, 1.0, -1.0]))
    head.conv_cls.bias = nn.Parameter(head.conv_cls.bias.repeat(2))  # of two anchors
    assert start_classifiers(model)
    read = head.loss_cls.probabilities(head.conv_cls.bias.view(2, 3))
    torch.testing.assert_close(read, torch.full((2, 3), 0.01))


@pytest.mark.parametrize(
    'loss',
    [
        BCELoss(),
        HillLoss(),
        BCELoss(link=dict(type='mmml_losses.TemperatureLink')),
        FocalLoss(alpha=0.25, link='phi'),
    ],
    ids=['bce', 'hill', 'temperature', 'phi'],
)
def test_losses_of_the_sigmoid_start_as_mmdet_has_them(loss):
    model = classifier(loss, sigmoid_bias())
    assert start_classifiers(model) == {}
    assert model.bbox_head.conv_cls.bias.tolist() == pytest.approx([sigmoid_bias()] * 3)


@pytest.mark.parametrize('change', [1e-5, torch.tensor([0.0, 0.0, 1e-5])], ids=['all', 'one'])
def test_a_trained_classifier_is_left_alone(change):
    model = classifier(SPALoss(), sigmoid_bias())
    model.bbox_head.conv_cls.bias.data += change
    assert start_classifiers(model) == {}


@pytest.mark.needs_mmdet
@pytest.mark.parametrize('name', RECIPES)
@pytest.mark.parametrize(('loss', 'bias'), [('SPALoss', SPA_BIAS), ('BCELoss', sigmoid_bias())])
def test_every_head_starts_at_a_hundredth(name, loss, bias):
    """But for that of DETR, to which MMDetection gives the biases of any layer."""
    detector = build_detector(detector_config(name, dict(type=f'mmml_losses.{loss}', use_sigmoid=True)))
    detector.init_weights()
    before = {name: weight.detach().clone() for name, weight in detector.named_parameters()}
    started = start_classifiers(detector)
    layers = [layer for head in heads_of(detector) for layer in logits_of(head)]
    assert layers
    for layer in layers if name != 'detr' else []:
        torch.testing.assert_close(layer.bias.detach(), torch.full_like(layer.bias, bias), atol=1e-4, rtol=0)
    changed = {name for name, weight in detector.named_parameters() if not torch.equal(weight, before[name])}
    assert changed == {f'{layer}.bias' for layer in started}
    starts_elsewhere = name in ('faster_rcnn', 'cascade_rcnn') or loss == 'SPALoss'
    assert bool(started) == (starts_elsewhere and name != 'detr')
    assert all(weight.isfinite().all() for weight in detector.parameters())


@pytest.mark.needs_mmdet
def test_layers_before_the_classifier_of_a_roi_head_keep_their_biases():
    """Of as many channels as there are classes, and of 0 at the start."""
    cfg = detector_config('faster_rcnn', dict(type='mmml_losses.BCELoss'))
    cfg.roi_head.bbox_head.update(type='ConvFCBBoxHead', num_cls_fcs=1, num_reg_fcs=1, fc_out_channels=3, num_classes=3)
    detector = build_detector(cfg)
    detector.init_weights()
    assert list(start_classifiers(detector)) == ['roi_head.bbox_head.fc_cls']
    assert not detector.roi_head.bbox_head.cls_fcs[0].bias.any()


@pytest.mark.needs_mmdet
def test_detr_starts_there_with_the_setting_of_the_documentation():
    cfg = detector_config('detr', dict(type='mmml_losses.SPALoss'))
    cfg.bbox_head.init_cfg = dict(type='Normal', std=0.01, bias_prob=0.01, override=dict(name='fc_cls'))
    detector = build_detector(cfg)
    detector.init_weights()
    assert start_classifiers(detector) == {'bbox_head.fc_cls': pytest.approx(SPA_BIAS, abs=1e-4)}


class Detector(BaseModel):
    """A model whose head looks like one of a detector."""

    def __init__(self):
        super().__init__()
        self.bbox_head = classifier(SPALoss(), sigmoid_bias()).bbox_head

    def forward(self, inputs, mode='tensor'):
        return dict(loss=self.bbox_head.conv_cls(inputs[0]).square().mean())


def runner_in(folder, name, **kwargs) -> Runner:
    dataset = torch.utils.data.TensorDataset(torch.ones(4, 2))
    return Runner(
        Detector(),
        str(folder),
        train_dataloader=dict(batch_size=2, num_workers=0, dataset=dataset, sampler=dict(type='DefaultSampler')),
        train_cfg=dict(by_epoch=True, max_epochs=1),
        optim_wrapper=dict(optimizer=dict(type='SGD', lr=1e-3)),
        custom_hooks=[dict(type='mmml_losses.ClassifierPriorHook')],
        experiment_name=name,
        **kwargs,
    )


def test_the_hook_starts_a_new_classifier_and_logs_it(tmp_path):
    runner = runner_in(tmp_path, 'prior_new')
    runner.train()
    biases = runner.model.bbox_head.conv_cls.bias.detach()
    torch.testing.assert_close(biases, torch.full((3,), SPA_BIAS), atol=0.05, rtol=0)
    (log,) = tmp_path.glob('*/*.log')
    assert 'bbox_head.conv_cls.bias starts at -0.5142, which the loss reads as a probability of 0.01' in log.read_text()


def test_the_hook_leaves_a_loaded_classifier_alone(tmp_path):
    model = Detector()
    nn.init.constant_(model.bbox_head.conv_cls.bias, -3.0)
    torch.save(model.state_dict(), tmp_path / 'trained.pth')
    runner = runner_in(tmp_path, 'prior_loaded', load_from=str(tmp_path / 'trained.pth'))
    runner.train()
    biases = runner.model.bbox_head.conv_cls.bias.detach()
    torch.testing.assert_close(biases, torch.full((3,), -3.0), atol=0.05, rtol=0)
