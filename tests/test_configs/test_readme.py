"""Test that the README and its pages name every config, and nothing that does not exist."""

import argparse
import re

import pytest

from mmml_losses.cli import launch
from mmml_losses.losses import MultiLabelLoss
from mmml_losses.registry import LOSSES

from .conftest import CONFIGS, FOLDER

INDEX = (FOLDER / 'README.md').read_text()
PAPERS = sorted((FOLDER / 'papers').glob('*.md'))
DETECTORS = (FOLDER / 'det' / 'README.md').read_text()
TEXT = '\n'.join([INDEX, *(page.read_text() for page in PAPERS), DETECTORS])
# The values of each placeholder in the tables.
PLACEHOLDERS = dict(
    NET=('ecaresnet50t', 'vit_b32', 'mobilenet_v3_large', 'resnet101', 'swin_s'),
    DATA=('voc12', 'coco', 'nus', 'cub'),
    TAIL=('voc_lt', 'coco_lt'),
    LEFT=('coco_75', 'coco_40', 'coco_single'),
)
LOSSES_FOLDER = FOLDER / '_base_' / 'losses'
MEANT = dict(M=128, K=2.94)
CONFIG = re.compile(r'`(?:configs/)?(\w+)\.py(?=[ `])')


def meanings(name: str) -> set[str]:
    """Return the names that a name with a placeholder means."""
    for word, values in PLACEHOLDERS.items():
        if word in name:
            return {name.replace(word, value) for value in values}
    return {name}


def test_every_page_is_linked_and_every_link_leads_to_a_file():
    for page in (FOLDER / 'README.md', *PAPERS, FOLDER / 'det' / 'README.md'):
        links = {(page.parent / link).resolve() for link in re.findall(r'\]\(([^)#:]+)\)', page.read_text())}
        assert all(link.is_file() for link in links), page
        if page.parent == FOLDER:
            assert links >= {*PAPERS, FOLDER / 'det' / 'README.md'}


def test_every_config_is_listed():
    listed = set(CONFIG.findall(TEXT))
    assert not {config.stem for config in CONFIGS} - listed


def test_every_listed_config_exists():
    files = {config.stem for config in CONFIGS}
    for name in set(CONFIG.findall(TEXT)):
        meant = meanings(name)
        # NETWORK means the networks of the config's own paper.
        assert meant & files if 'NET' in name else meant <= files, name


def test_every_detector_is_listed():
    files = {config.stem for config in (FOLDER / 'det').glob('*.py')}
    listed = set(re.findall(r'`det/(\w+)\.py`', DETECTORS))
    assert {name for name in listed if 'HEAD' not in name} == {name for name in files if '_digits' in name}
    sentence = DETECTORS[: DETECTORS.index('None of them')]
    heads, losses = (re.findall(r'`(\w+)`', part) for part in sentence.split('HEAD is')[1].split('; LOSS is'))
    assert {name for name in files if name.endswith('_coco')} == (
        {f'{head}_{loss}_coco' for head in heads for loss in losses[:-2]}
        | {f'{head}_{losses[-2]}_coco' for head in heads[:-1]}
        | {f'retinanet_{losses[-1]}_coco'}
    )


def test_every_listed_loss_exists():
    losses = {file.stem for file in LOSSES_FOLDER.glob('*.py')}
    named = set(re.findall(r'--loss (\w+)', TEXT)) - {'NAME'}
    assert named
    assert named <= losses


def rows() -> list[list[str]]:
    """Return the cells of every row of the papers' tables."""
    found = []
    for page in PAPERS:
        (table,) = re.findall(r'^\| row in the paper .*\n\|[-|]+\n((?:\|.*\n)+)', page.read_text(), flags=re.MULTILINE)
        found += [row.strip('|').split('|') for row in table.splitlines()]
    return found


def commands() -> list[str]:
    """Return the commands of all rows once, without ``python tools/train.py`` and with a value for each placeholder."""
    found = {}
    for _, cell, *_ in rows():
        for command in re.findall(r'`(\w+\.py(?: --[^`]+)?)`', cell):
            for word, value in MEANT.items():
                command = re.sub(rf'={word}\b', f'={value}', command)
            name = next((word for word in PLACEHOLDERS if word in command), None)
            for value in PLACEHOLDERS.get(name, ('',)):
                meant = command.replace(name or ' ', value or ' ')
                if name != 'NET' or (FOLDER / meant.split()[0]).is_file():
                    found[meant] = None
    return list(found)


def test_every_row_has_a_config_the_papers_figure_and_ours():
    assert len(PAPERS) == 5
    assert all(len(row) == 4 and all(cell.strip() for cell in row) for row in rows())


def test_every_row_has_a_command_or_takes_the_checkpoint_of_another():
    without = [cell for _, cell, *_ in rows() if not re.search(r'`\w+\.py[ `]', cell)]
    assert all('checkpoint' in cell for cell in without)


@pytest.mark.parametrize('command', commands())
def test_the_command_of_a_row_gives_a_config_with_a_loss(command):
    parser = argparse.ArgumentParser()
    parser.add_argument('config')
    launch.add_common_arguments(parser)
    args = parser.parse_args(command.split())
    cfg = launch.read_config(str(FOLDER / args.config), args.cfg_options, args.loss, args.model)
    loss = LOSSES.build(cfg.model.head.loss)
    for option, value in (args.cfg_options or {}).items():
        if option.startswith('model.head.loss.') and '.losses.' not in option:
            assert cfg.model.head.loss[option.removeprefix('model.head.loss.')] == value
    assert isinstance(loss, MultiLabelLoss)
