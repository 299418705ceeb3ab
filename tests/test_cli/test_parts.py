"""Test the metrics and hooks that --metric and --hook add to a config."""

import argparse
import re

import pytest
from mmengine.config import Config

from mmml_losses.cli.parts import add_part_arguments, append_parts
from mmml_losses.utils.errors import UsageError
from tests.conftest import ROOT
from tests.helpers.few_features import feature_options, write_features
from tests.helpers.tools import run_tool

AP = dict(type='mmml_losses.MultiLabelAP')
RECOVERY = dict(type='mmml_losses.MissingLabelRecovery', threshold=0.9, fully_labelled=True)
ADD_RECOVERY = ('--metric', 'MissingLabelRecovery', 'threshold=0.9', 'fully_labelled=True')


def appended(arguments, no_validate=False, **settings):
    parser = argparse.ArgumentParser()
    add_part_arguments(parser)
    args = parser.parse_args(arguments)
    args.config, args.no_validate = 'mine.py', no_validate
    cfg = Config(settings)
    append_parts(cfg, args)
    return cfg


def test_metrics_join_every_kind_of_evaluator():
    evaluator = dict(type='mmml_losses.MultiLabelEvaluator', metrics=[AP], post_hoc=dict())
    for before, after in (
        (AP, [AP, RECOVERY]),
        ([AP], [AP, RECOVERY]),
        (evaluator, dict(evaluator, metrics=[AP, RECOVERY])),
        (dict(evaluator, metrics=AP), dict(evaluator, metrics=[AP, RECOVERY])),
    ):
        cfg = appended(ADD_RECOVERY, val_evaluator=before, test_evaluator=before)
        assert cfg.val_evaluator == cfg.test_evaluator == after


def test_flags_may_be_repeated():
    arguments = [*ADD_RECOVERY, '--metric', 'mmml_losses.MultiLabelF1', 'top_k=3', 'items=[CF1,OF1]']
    cfg = appended([*arguments, '--hook', 'LabelRecoveryHook', '--hook', 'EMAHook'], test_evaluator=AP)
    f1 = dict(type='mmml_losses.MultiLabelF1', top_k=3, items=['CF1', 'OF1'])
    assert cfg.test_evaluator == [AP, RECOVERY, f1]
    assert 'val_evaluator' not in cfg
    assert cfg.custom_hooks == [dict(type='mmml_losses.LabelRecoveryHook'), dict(type='mmengine.EMAHook')]


def test_hooks_come_after_the_hooks_of_the_config():
    hooks = [dict(type='mmml_losses.TrainingSetHook')]
    cfg = appended(['--hook', 'LabelRecoveryHook', 'threshold=0.6'], custom_hooks=hooks)
    assert cfg.custom_hooks == [*hooks, dict(type='mmml_losses.LabelRecoveryHook', threshold=0.6)]


def test_the_metric_of_the_help_can_be_added_to_a_training(tmp_path, capsys):
    parser = argparse.ArgumentParser()
    add_part_arguments(parser)
    (example,) = re.findall(r'e\.g\. (--metric [^;]*);', ' '.join(parser.format_help().split()))
    options = feature_options(write_features(tmp_path / 'features.npz'))
    arguments = ['--cfg-options', *(f'{key}={value}' for key, value in options.items())]
    config = ROOT / 'configs' / 'bce_features.py'
    run_tool('train.py', config, *example.split(), '--work-dir', tmp_path, *arguments)


def test_without_a_flag_nothing_changes():
    assert dict(appended([], val_evaluator=AP, no_validate=True)) == dict(val_evaluator=AP)


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        (['--metric', 'MisingLabelRecovery'], "--metric: 'MisingLabelRecovery' .* did you mean 'MissingLabelRecovery'"),
        (['--metric', 'MultiLabelF1', 'treshold=1'], "--metric MultiLabelF1 cannot be built: .*argument 'treshold'"),
        (['--metric', 'MultiLabelF1', 'top_k=0'], 'cannot be built: top_k must be a whole number of at least 1, got 0'),
        (['--metric', 'mmpretrain.Nothing'], "--metric: 'mmpretrain.Nothing' is not in the metric registry of its"),
        (['--hook', 'MultiLabelF1'], "--hook: 'MultiLabelF1' is not in the hook registry of mmml_losses"),
        (
            ['--hook', 'LabelRecoveryHook', 'threshold=2'],
            r'--hook LabelRecoveryHook cannot be built: threshold must be',
        ),
    ],
)
def test_a_wrong_part_is_one_sentence(arguments, message):
    with pytest.raises(UsageError, match=message):
        appended(arguments, test_evaluator=AP)


def test_a_metric_without_an_evaluation_is_rejected():
    with pytest.raises(UsageError, match=r'--metric: mine\.py has neither of val_evaluator and test_evaluator'):
        appended(ADD_RECOVERY)
    with pytest.raises(UsageError, match='--metric needs the validation that --no-validate switches off'):
        appended(ADD_RECOVERY, no_validate=True, val_evaluator=AP, test_evaluator=AP)


@pytest.mark.parametrize('arguments', [['threshold=0.9'], ['MultiLabelF1', 'top_k'], ['MultiLabelF1', 'top k=3']])
def test_a_part_is_a_type_and_settings(arguments, capsys):
    with pytest.raises(SystemExit):
        appended(['--metric', *arguments], test_evaluator=AP)
    assert '--metric must be followed by a type and NAME=VALUE settings, got ' in capsys.readouterr().err
