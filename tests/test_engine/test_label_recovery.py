"""Test the hook that compares corrected labels with the true ones, in small trainings on vectors."""

import json
import logging
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.distributed
import torch.multiprocessing
from mmengine.config import ConfigDict
from mmengine.dataset import BaseDataset, ConcatDataset, RepeatDataset
from mmengine.hooks import Hook
from mmengine.model import BaseModel
from mmengine.registry import DATASETS as MMENGINE_DATASETS
from mmengine.registry import DefaultScope
from mmengine.runner import Runner
from torch.nn.functional import softplus

from mmml_losses.datasets import LabelWrapper, Relabelled, read_labels
from mmml_losses.datasets.labels.label_file import save_label_file
from mmml_losses.engine import LabelRecoveryHook
from mmml_losses.engine.hooks import label_recovery
from mmml_losses.engine.hooks.label_recovery import HiddenLabels
from mmml_losses.evaluation import LabelRecovery, load_predictions
from mmml_losses.evaluation import label_recovery as measure
from mmml_losses.registry import LOSSES
from mmml_losses.visualization import read_label_recovery

NUM_SAMPLES, NUM_CLASSES, BATCH_SIZE, EPOCHS = 24, 4, 8, 3
RNG = np.random.RandomState(0)
FEATURES = RNG.randn(NUM_SAMPLES, 6).astype(np.float32)
TRUE = (FEATURES[:, :NUM_CLASSES] > 0).astype(np.int8)
TRUE[:, 3] = 1 - TRUE[:, 3] * (FEATURES[:, 4] > 0)
GIVEN = TRUE * (TRUE.cumsum(axis=1) == 1)
PSEUDO = np.where(RNG.rand(*TRUE.shape) < 0.3, np.int8(1), GIVEN)

CORRECTING = {
    'splc': dict(type='SPLCLoss', threshold=0.4),
    'lasd': dict(type='LASDLoss', threshold=0.5),
    'll_r': dict(type='LargeLossRejection', relative_increase=0.1),
    'll_ct': dict(type='LargeLossCorrection', relative_increase=0.1),
    'll_cp': dict(type='LargeLossCorrection', permanent=True, relative_increase=0.1),
    'em_apl': dict(type='EMAPLLoss', warmup_epochs=1),
    'role': dict(type='ROLELoss', num_samples=NUM_SAMPLES, num_classes=NUM_CLASSES, expected_positives=2.0),
    'sum': dict(type='SumLoss', losses=dict(lasd=dict(type='LASDLoss', threshold=0.5), lpr=dict(type='BCELoss'))),
}


class Vectors(BaseDataset):
    """Vectors with their true labels, packed as MMPretrain packs images."""

    METAINFO = dict(classes=tuple('abcd'))

    def __init__(self, folder='vectors', meta_keys=('sample_idx', 'img_path')):
        packing = dict(type='mmpretrain.PackInputs', input_key='vector', meta_keys=meta_keys)
        super().__init__(data_prefix=dict(img_path=folder), serialize_data=False, pipeline=[packing])

    def load_data_list(self):
        folder = self.data_prefix['img_path']
        return [
            dict(vector=FEATURES[idx], gt_label=np.flatnonzero(TRUE[idx]).tolist(), img_path=f'{folder}/{idx}')
            for idx in range(NUM_SAMPLES)
        ]


class Served(LabelWrapper):
    """Return the labels that it is given."""

    def __init__(self, dataset, labels):
        self.labels = labels
        super().__init__(dataset)

    def relabel(self, samples):
        return self.labels


class Linear(BaseModel):
    """A head of this package on the vectors."""

    def __init__(self, loss, scales=()):
        super().__init__()
        from mmml_losses.models import ExpertsHead, MultiLabelHead

        torch.manual_seed(0)
        settings = dict(num_classes=NUM_CLASSES, in_channels=6, loss=loss, init_cfg=[])
        self.head = ExpertsHead(log_prior_scales=scales, **settings) if scales else MultiLabelHead(**settings)

    def forward(self, inputs, data_samples, mode):
        assert not any('true_label' in sample for sample in data_samples)
        return self.head.loss((torch.stack(inputs),), data_samples)


class Watch(Hook):
    """Counts anew what each loss corrects, from its inputs and by the rules of the papers."""

    def __init__(self, rule):
        self.rule = rule
        self.epochs = []

    def before_train(self, runner):
        self.loss = runner.model.head.loss_module
        part = self.loss.losses['lasd'] if hasattr(self.loss, 'losses') else self.loss
        part.register_forward_pre_hook(self.before, with_kwargs=True)

    def before_train_epoch(self, runner):
        self.corrected = {}

    def before(self, loss, args, kwargs):
        (logits, target), rows = args, kwargs['sample_idx']
        assert np.array_equal(target, GIVEN[rows])
        for row, corrected in zip(rows, self.rule(loss, logits.detach(), target, **kwargs), strict=True):
            self.corrected[int(row)] = corrected.numpy()

    def after_train_epoch(self, runner):
        rows = list(self.corrected)
        self.epochs.append(measure(GIVEN[rows], TRUE[rows], np.stack(list(self.corrected.values()))))


def above(threshold, first_epoch):
    def rule(loss, logits, target, epoch, **kwargs):
        return torch.where((logits.sigmoid() > threshold) & (epoch >= first_epoch), 1.0, target)

    return rule


def largest(loss, logits, target, epoch, **kwargs):
    """Correct a tenth of the labels more in each epoch, those of the largest loss first."""
    corrected, losses = target.clone(), softplus(logits).masked_fill(target == 1, -1)
    for place in losses.flatten().argsort(descending=True)[: int(np.ceil(0.1 * epoch * target.numel() - 1e-6))]:
        corrected.view(-1)[place] = 1
    return corrected


def make_permanent():
    kept = np.zeros_like(GIVEN, dtype=np.float32)

    def rule(loss, logits, target, epoch, sample_idx):
        before = torch.from_numpy(np.maximum(GIVEN[sample_idx], kept[sample_idx]))
        after = largest(loss, logits, before, min(epoch, 1))
        kept[sample_idx] = after
        return after

    return rule


def estimates(loss, logits, target, sample_idx, **kwargs):
    return (loss.label_estimator.detach()[sample_idx].sigmoid() > 0.5).float()


RULES = {
    'splc': above(0.4, 1),
    'lasd': above(0.5, 0),
    'll_r': largest,
    'll_ct': largest,
    'll_cp': make_permanent(),
    'role': estimates,
    'sum': above(0.5, 0),
}


def train(folder, dataset, loss, *hooks, epochs=EPOCHS, scales=()):
    loss = LOSSES.build(ConfigDict(loss, check_inputs=True))
    runner = Runner(
        model=Linear(loss, scales),
        work_dir=str(folder),
        train_dataloader=dict(
            dataset=dataset, batch_size=BATCH_SIZE, num_workers=0, sampler=dict(type='DefaultSampler', shuffle=True)
        ),
        optim_wrapper=dict(optimizer=dict(type='SGD', lr=1.0)),
        train_cfg=dict(by_epoch=True, max_epochs=epochs),
        custom_hooks=[dict(type='mmml_losses.TrainingSetHook'), *hooks],
        visualizer=dict(type='Visualizer', vis_backends=[dict(type='LocalVisBackend')], name=str(folder)),
        randomness=dict(seed=0),
        experiment_name=str(folder).replace('/', '_'),
        default_scope='mmpretrain',
    )
    runner.train()
    return runner


@pytest.fixture
def hidden():
    return Served(Vectors(), GIVEN)


@pytest.fixture
def logged(monkeypatch):
    messages = []
    monkeypatch.setattr(label_recovery, 'print_log', lambda message, logger, level: messages.append((level, message)))
    return messages


@pytest.mark.parametrize('name', CORRECTING)
def test_training_is_the_same_with_and_without_the_hook(name, hidden, tmp_path):
    with_hook = train(tmp_path / 'with', hidden, CORRECTING[name], LabelRecoveryHook())
    without = train(tmp_path / 'without', hidden, CORRECTING[name])
    state = with_hook.model.state_dict()
    assert state.keys() == without.model.state_dict().keys()
    for key, value in without.model.state_dict().items():
        assert torch.equal(value, state[key]), key
    assert not any(module._forward_hooks for module in with_hook.model.modules())


@pytest.mark.parametrize('name', RULES)
def test_each_epoch_counts_what_the_loss_corrected(name, hidden, tmp_path, logged):
    hook, watch = LabelRecoveryHook(), Watch(RULES[name])
    train(tmp_path, hidden, CORRECTING[name], hook, watch)
    np.testing.assert_equal(vars(hook.recovery), vars(watch.epochs[-1]))
    assert hook.recovery.num_recovered > 0
    curves = read_label_recovery(tmp_path)
    assert list(curves['num_corrected'].values()) == [found.num_corrected for found in watch.epochs]
    assert list(curves['recall']) == [1, 2, 3]
    assert list(curves['recall'].values()) == [100 * found.recall for found in watch.epochs]
    precision = {epoch: 100 * found.precision for epoch, found in enumerate(watch.epochs, 1) if found.num_corrected}
    assert curves['precision'] == precision
    assert curves['PPV'][3] == 100 * watch.epochs[-1].ppv
    assert curves['NPV'][3] == 100 * watch.epochs[-1].npv
    (level, first), *_, (_, last) = logged
    assert (level, len(logged)) == (logging.INFO, EPOCHS)
    found = watch.epochs[0]
    assert first.startswith(
        f'Label recovery: epoch 1: {found.num_recovered} of {found.num_hidden} hidden positives are among the '
        f'{found.num_corrected} corrected labels'
    )
    assert f'precision {100 * watch.epochs[-1].precision:.2f}, recall' in last


def test_labels_count_once_however_many_experts_correct_them(hidden, tmp_path, logged):
    hook = LabelRecoveryHook()
    train(tmp_path, hidden, CORRECTING['lasd'], hook, epochs=1, scales=(0.0, 1.0, 2.0))
    curves = read_label_recovery(tmp_path)
    assert curves['num_hidden'][1] == (TRUE > GIVEN).sum()
    assert hook.recovery.num_hidden == 3 * curves['num_hidden'][1]
    assert curves['num_corrected'][1] == hook.recovery.num_corrected / 3
    assert 0 < curves['num_corrected'][1] <= (GIVEN == 0).sum()
    assert curves['recall'][1] == pytest.approx(100 * curves['num_recovered'][1] / curves['num_hidden'][1])
    assert f'on average of 3 losses {curves["num_recovered"][1]:.0f} of {(TRUE > GIVEN).sum()} hidden' in logged[0][1]


def test_a_threshold_for_experts_is_rejected_because_their_losses_do_not_see_the_prediction(hidden, tmp_path):
    with pytest.raises(ValueError, match=r'threshold must be None for a model of 3 losses'):
        train(tmp_path, hidden, dict(type='BCELoss'), LabelRecoveryHook(threshold=0.5), scales=(0.0, 1.0, 2.0))


def test_pseudo_negatives_are_no_corrections_and_have_an_npv(hidden, tmp_path):
    hook = LabelRecoveryHook()
    train(tmp_path, hidden, CORRECTING['em_apl'], hook)
    negatives = hook.recovery.true_negatives + hook.recovery.false_negatives
    assert (hook.recovery.num_corrected, hook.recovery.num_hidden) == (0, (TRUE > GIVEN).sum())
    assert negatives.sum() > 0
    assert hook.recovery.num_rejected + negatives.sum() == (GIVEN == 0).sum()
    assert 'precision' not in read_label_recovery(tmp_path)


def test_pseudo_labels_are_judged_against_what_was_given(hidden, tmp_path):
    hook, expected = LabelRecoveryHook(), measure(GIVEN, TRUE, PSEUDO)
    save_label_file(tmp_path / 'pseudo.json', PSEUDO, read_labels(hidden), {})
    dataset = Relabelled(hidden, str(tmp_path / 'pseudo.json'))
    train(tmp_path, dataset, dict(type='BCELoss'), hook, epochs=2)
    np.testing.assert_equal(vars(hook.recovery), vars(expected))
    assert 0 < expected.num_recovered < expected.num_corrected
    assert list(read_label_recovery(tmp_path)['precision'].values()) == [100 * expected.precision] * 2
    # A loss that goes on to correct is judged with them.
    train(tmp_path / 'splc', dataset, dict(type='SPLCLoss', threshold=1.0), hook, epochs=1)
    np.testing.assert_equal(vars(hook.recovery), vars(expected))


@pytest.mark.parametrize('name', ['spa', 'sum', 'splc'])
def test_a_threshold_judges_the_predictions_of_any_loss(hidden, tmp_path, name):
    loss = dict(type='SPALoss', reduction='sum') if name == 'spa' else CORRECTING[name]
    hook = LabelRecoveryHook(threshold=0.1)
    seen = []

    class Spy(Hook):
        def before_train(self, runner):
            self.model = runner.model

        def before_train_iter(self, runner, batch_idx, data_batch):
            rows = [sample.sample_idx for sample in data_batch['data_samples']]
            with torch.no_grad():
                logits = self.model.head((torch.stack(data_batch['inputs']),))
            seen.append(measure(GIVEN[rows], TRUE[rows], self.corrected(logits, GIVEN[rows])))

        def corrected(self, logits, given):
            probable = self.model.head.loss_module.probabilities(logits).numpy() > 0.1
            return np.where(probable, 1, given)

    train(tmp_path, hidden, loss, hook, Spy(), epochs=1)
    np.testing.assert_equal(vars(hook.recovery), vars(sum(seen)))
    assert hook.recovery.num_corrected > 0


def test_wrappers_are_found_inside_those_of_mmengine(tmp_path):
    hook = LabelRecoveryHook()
    train(tmp_path / 'repeated', RepeatDataset(Served(Vectors(), GIVEN), times=2), CORRECTING['lasd'], hook, epochs=1)
    assert hook.recovery.num_hidden == 2 * (TRUE > GIVEN).sum()
    more = Served(Vectors('more'), TRUE * (TRUE.cumsum(axis=1) == 2))
    hidden_in_more = (more.labels < TRUE).sum()
    dataset = ConcatDataset([Served(Vectors(), GIVEN), more])
    train(tmp_path / 'joined', dataset, CORRECTING['lasd'], hook, epochs=1)
    assert hook.recovery.num_hidden == (TRUE > GIVEN).sum() + hidden_in_more
    around = Served(ConcatDataset([Vectors(), Vectors('more')]), np.concatenate([GIVEN, more.labels]))
    train(tmp_path / 'around', around, CORRECTING['lasd'], hook, epochs=1)
    assert hook.recovery.num_hidden == (TRUE > GIVEN).sum() + hidden_in_more


def test_samples_that_share_a_name_are_rejected():
    same = ConcatDataset([Served(Vectors(), GIVEN), Served(Vectors(), TRUE)])
    with pytest.raises(ValueError, match=r"must name one sample .*, got \('vectors/\d+', \d+\) for"):
        HiddenLabels(same)
    twice = Served(Vectors(), GIVEN)
    assert len(HiddenLabels(ConcatDataset([twice, twice])).true) == NUM_SAMPLES


def test_labels_of_stacked_wrappers():
    inner = Served(Vectors(), GIVEN)
    outer = Served(RepeatDataset(inner, times=2), np.concatenate([PSEUDO, GIVEN]))
    twice = np.concatenate([GIVEN, GIVEN])
    assert np.array_equal(outer.true_labels(), np.concatenate([TRUE, TRUE]))
    # What the pseudo labels added was not given, and what they kept was.
    assert np.array_equal(outer.uncorrected_labels(), twice)
    assert np.array_equal(inner.uncorrected_labels(), GIVEN)
    hidden_twice = Served(inner, GIVEN * 0)
    assert not hidden_twice.uncorrected_labels().any()
    joined = Served(ConcatDataset([inner, Vectors()]), np.concatenate([PSEUDO, PSEUDO]))
    assert np.array_equal(joined.uncorrected_labels(), np.concatenate([GIVEN, np.minimum(TRUE, PSEUDO)]))
    assert np.array_equal(inner.get_subset([3, 1]).true_labels(), TRUE[[3, 1]])


def test_what_cannot_be_judged_is_rejected_before_the_training(hidden, tmp_path):
    with pytest.raises(ValueError, match='knows its true labels, got Vectors outside of any label wrapper'):
        train(tmp_path / 'a', Vectors(), CORRECTING['splc'], LabelRecoveryHook())
    with pytest.raises(ValueError, match=r'a loss that corrects labels .* got BCELoss and labels as they were given'):
        train(tmp_path / 'b', hidden, dict(type='BCELoss'), LabelRecoveryHook())
    with pytest.raises(ValueError, match=r'threshold must be in \(0, 1\], got 60'):
        LabelRecoveryHook(threshold=60)


def test_samples_without_an_index_are_rejected(tmp_path):
    with pytest.raises(ValueError, match="add 'sample_idx' to meta_keys of PackInputs"):
        train(tmp_path / 'a', Served(Vectors(meta_keys=()), GIVEN), CORRECTING['splc'], LabelRecoveryHook())
    parts = [Served(Vectors(name, meta_keys=('sample_idx',)), GIVEN) for name in ('one', 'two')]
    with pytest.raises(ValueError, match=r'img_path must name the images .* got None: pack it'):
        train(tmp_path / 'b', ConcatDataset(parts), CORRECTING['splc'], LabelRecoveryHook())


def test_labels_that_were_blended_are_rejected(hidden):
    labels = HiddenLabels(hidden)
    rows = np.array([2, next(row for row in range(NUM_SAMPLES) if (GIVEN[row] != GIVEN[2]).any())])
    labels.check_targets(rows, GIVEN[rows].astype(np.float32))
    for target in (GIVEN[rows[::-1]], 0.5 * (GIVEN[rows] + GIVEN[rows[::-1]]), GIVEN[[2]]):
        with pytest.raises(ValueError, match='targets of the loss must be the labels of the training set'):
            labels.check_targets(rows, target)
    with pytest.raises(ValueError, match="needs batches with 'data_samples'"):
        labels.rows_of(None)


def test_a_training_set_that_hides_nothing_is_logged(tmp_path, logged):
    train(tmp_path, Served(Vectors(), TRUE), CORRECTING['lasd'], LabelRecoveryHook(), epochs=1)
    assert logged[0] == (
        logging.WARNING,
        'Label recovery: the training set hides no positive label: there is nothing to recover',
    )
    assert 'recall' not in read_label_recovery(tmp_path)


def worker(rank, folder):
    torch.set_num_threads(1)
    torch.distributed.init_process_group('gloo', f'file://{folder}/store', rank=rank, world_size=2)
    hook, scalars = LabelRecoveryHook(), []
    hook._corrections = {None: None}
    hook._found = measure(GIVEN[rank::2], TRUE[rank::2], PSEUDO[rank::2])
    visualizer = SimpleNamespace(add_scalars=lambda values, step: scalars.append((values, step)))
    hook.after_train_epoch(SimpleNamespace(epoch=4, visualizer=visualizer))
    (folder / f'{rank}.json').write_text(json.dumps([hook.recovery.counts().tolist(), scalars]))
    torch.distributed.destroy_process_group()


def test_processes_count_together(tmp_path):
    torch.multiprocessing.start_processes(worker, args=(tmp_path,), nprocs=2, start_method='fork')
    expected = measure(GIVEN, TRUE, PSEUDO)
    for rank in range(2):
        counts, ((values, step),) = json.loads((tmp_path / f'{rank}.json').read_text())
        np.testing.assert_equal(vars(LabelRecovery.from_counts(np.array(counts))), vars(expected))
        assert step == 5
        assert values['label_recovery/precision'] == 100 * expected.precision


def test_a_config_trains_with_hidden_labels_and_tests_with_true_ones(small_run, tmp_path):
    cfg = small_run('bce_digits.py', max_epochs=1)
    cfg.val_cfg = cfg.val_dataloader = cfg.val_evaluator = cfg.param_scheduler = None
    cfg.model.head.loss = dict(type='mmml_losses.LASDLoss', threshold=0.3)
    cfg.custom_hooks.append(dict(type='mmml_losses.LabelRecoveryHook'))
    for loader, split in (('train_dataloader', 'train'), ('test_dataloader', 'test')):
        inner = cfg[loader].dataset
        with DefaultScope.overwrite_default_scope('mmpretrain'):
            labels = read_labels(MMENGINE_DATASETS.build(inner))
        first = labels.labels * (labels.labels.cumsum(axis=1) == 1)
        save_label_file(tmp_path / f'{split}.json', first, labels, {})
        cfg[loader].dataset = dict(type='mmml_losses.Relabelled', dataset=inner, labels=str(tmp_path / f'{split}.json'))
    cfg.test_dataloader.dataset.dataset.pipeline[-1].algorithm_keys = ['true_label']
    cfg.test_evaluator.metrics += [
        dict(type='mmml_losses.MissingLabelRecovery', threshold=0.3),
        dict(type='mmml_losses.SavePredictions', out_file=str(tmp_path / 'predictions.npz')),
    ]
    runner = Runner.from_cfg(cfg)
    runner.train()
    curves = read_label_recovery(cfg.work_dir)
    assert list(curves['recall']) == list(curves['num_hidden']) == [1]
    metrics = runner.test()
    saved = load_predictions(tmp_path / 'predictions.npz')
    np.testing.assert_array_equal(saved.true_labels, labels.labels)
    np.testing.assert_array_equal(saved.labels, first)
    assert metrics['missing-label/recall'] == 100 * measure(first, labels.labels, saved.scores > 0.3).recall
