"""Test that the README and its pages name every config, and nothing that does not exist."""

import re
from pathlib import Path

from mmengine.config import Config

from mmml_losses.cli.losses import find_loss
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


def test_every_listed_network_exists():
    networks = {file.stem for file in (FOLDER / '_base_' / 'models').glob('*.py')}
    named = set(re.findall(r'--model (\w+)', TEXT))
    assert {'NET', 'resnext50', 'densenet169', 'regnety_32gf'} <= named
    assert {meaning for name in named for meaning in meanings(name)} <= networks


def test_every_row_has_a_config_the_papers_figure_and_ours():
    assert len(PAPERS) == 5
    rows = []
    for page in PAPERS:
        (table,) = re.findall(r'^\| row in the paper .*\n\|[-|]+\n((?:\|.*\n)+)', page.read_text(), flags=re.MULTILINE)
        rows += [row.strip('|').split('|') for row in table.splitlines()]
    assert all(len(row) == 4 and all(cell.strip() for cell in row) for row in rows)


def test_every_option_of_a_row_is_an_argument_of_its_loss():
    checked = 0
    for line in TEXT.splitlines():
        options = dict(re.findall(r'model\.head\.loss\.(\w+)=([\w.]+)', line))
        command = re.search(r'`(\w+)\.py(?: --loss (\w+))?', line)
        if not (line.startswith('| ') and options and command):
            continue
        name, short = command.groups()
        loss = find_loss(short) if short else Config.fromfile(a_file(name)).model.head.loss
        LOSSES.build(loss | {key: MEANT.get(value) or read_value(value) for key, value in options.items()})
        checked += 1
    assert checked > 30


def read_value(text: str) -> float | str:
    return float(text) if text[0].isdigit() else text


def a_file(name: str) -> Path:
    return next(file for file in (FOLDER / f'{meaning}.py' for meaning in sorted(meanings(name))) if file.is_file())
