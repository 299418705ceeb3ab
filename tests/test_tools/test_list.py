"""Test tools/list.py, which prints a line for everything that a config can name."""

import sys
from pathlib import Path

import pytest

from mmml_losses.cli.listing import KINDS, describe_config, first_sentence, list_kind
from mmml_losses.registry import LOSSES
from tests.helpers.tools import run_tool

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def lines(capsys):
    """Return a function that calls the tool in this process and returns its lines."""

    def call(*arguments):
        run_tool('list.py', *arguments)
        return capsys.readouterr().out.splitlines()

    return call


def test_all_kinds_are_listed_with_a_line_for_everything(lines):
    printed = lines()
    names = [line.split()[0] for line in printed if line]
    assert [name for name in names if name in KINDS] == list(KINDS)
    assert {'SPALoss', 'PhiLink', 'MultiLabelAP', 'MissingLabels', 'CocoMultiLabel', 'TrainingSetHook'} <= set(names)
    assert {'ClassAwareSampler', 'PackViews', 'MultiLabelHead', 'FeatureBackbone', 'spa_lpr_coco'} <= set(names)
    assert {file.stem for file in (ROOT / 'configs').glob('*.py')} <= set(names)
    assert {f'det/{file.stem}' for file in (ROOT / 'configs' / 'det').glob('*.py')} <= set(names)
    bare = [line for line in printed if line and len(line.split()) < 2]
    assert bare == []


def test_one_kind_has_the_short_names_of_losses(lines):
    printed = lines('losses')
    assert printed[0].split()[:2] == ['losses', '--loss']
    rows = {line.split()[0]: line for line in printed[1:]}
    assert rows['HillLoss'].split()[:3] == ['HillLoss', 'hill', 'Hill']
    assert 'asl, asl_gradient, asl_ps' in rows['AsymmetricLoss']
    assert 'spa_lpr' in rows['SumLoss']
    files = {file.stem for file in (ROOT / 'configs' / '_base_' / 'losses').glob('*.py')}
    shown = {name for entry in list_kind('losses') for name in entry.short_names}
    assert shown == files


@pytest.mark.needs_mmdet
def test_heads_that_are_imported_on_demand_are_listed():
    assert {'DETRHead', 'MultiLabelHead', 'PAAHead'} <= {entry.name for entry in list_kind('heads')}


def test_a_word_is_found_in_names_lines_and_short_names(lines):
    assert [line.split()[0] for line in lines('losses', 'hILL')] == ['losses', 'HillLoss', 'PairLoss']
    assert [line.split()[0] for line in lines('losses', 'spa_lpr')] == ['losses', 'SumLoss']
    found = [line.split()[0] for line in lines('feature') if line]
    assert {'readers', 'FeatureDataset', 'hooks', 'FeatureStatisticsHook', 'configs', 'bce_features'} <= set(found)
    assert 'SPALoss' not in found


def test_unknown_kinds_and_words_are_errors(lines, capsys):
    with pytest.raises(SystemExit, match="nothing matches 'nonsense' among losses"):
        lines('losses', 'nonsense')
    with pytest.raises(SystemExit):
        lines('loses', 'hill')
    assert 'kind must be one of losses, links' in capsys.readouterr().err


def test_a_terminal_gets_a_frame(lines, monkeypatch):
    monkeypatch.setattr(sys.stdout, 'isatty', lambda: True, raising=False)
    printed = lines('samplers')
    assert any('┃' in line for line in printed)
    assert any('ClassAwareSampler' in line for line in printed)


@pytest.mark.parametrize(
    ('text', 'expected'),
    [
        ('Hill (Zhang et al., Eq. 5 and 11). And more.', 'Hill (Zhang et al., Eq. 5 and 11)'),
        ('The link of ASL (see :func:`mmml_losses.functional.phi_link`), with\nits constants. More.', None),
        ('No full stop', 'No full stop'),
    ],
)
def test_sentences_end_where_they_end(text, expected):
    described = type('Described', (), {'__doc__': text})
    assert first_sentence(described) == (expected or 'The link of ASL (see phi_link), with its constants')


def test_objects_without_a_docstring_have_that_of_their_base():
    assert first_sentence(object()).startswith('The base class of the class hierarchy')
    assert first_sentence(LOSSES.get('HillLoss')).startswith('Hill loss for missing labels (Zhang et al.')


def test_configs_without_a_comment_are_named_by_what_they_join(tmp_path):
    commented, bare = tmp_path / 'commented.py', tmp_path / 'bare.py'
    settings = (
        "model = dict(head=dict(loss=dict(type='mmml_losses.SumLoss', losses=dict(a=dict(type='mmml_losses.DRLoss'), "
        "b=dict(type='mmml_losses.DBFocalLoss')))))\n"
        "train_dataloader = dict(dataset=dict(type='mmml_losses.LongTailed', dataset=dict(type='mmml_losses.VOC')))\n"
    )
    commented.write_text(f'# DR with DB-Focal on\n# VOC-LT (Eq. 8). And more.\n{settings}')
    bare.write_text(settings)
    assert describe_config(commented) == 'DR with DB-Focal on VOC-LT (Eq. 8)'
    assert describe_config(bare) == 'DRLoss + DBFocalLoss on VOC'


@pytest.mark.needs_mmdet
def test_heads_of_detectors_are_listed(lines):
    pytest.importorskip('mmdet')
    assert {'MultiLabelHead', 'DeformableDETRHead'} <= {line.split()[0] for line in lines('heads')}
    (line,) = lines('configs', 'det/retinanet_splc_digits_50')[1:]
    assert line.split(maxsplit=1)[1] == 'RetinaNet with SPLC on digit scenes of which half of the boxes are hidden'
