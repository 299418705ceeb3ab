"""Test that the commands of docs/pictures.md name flags, settings and pictures that exist."""

import re
from pathlib import Path

from mmml_losses.cli.launch import read_config

from .conftest import FOLDER

PAGE = Path(FOLDER).parent / 'docs' / 'pictures.md'
TEXT = PAGE.read_text()


def test_every_setting_of_a_sweep_is_one_of_its_config():
    swept = []
    for line in TEXT.replace('\\\n', ' ').splitlines():
        command = re.search(r'sweep\.py\S* `?configs/(\w+)\.py(?: --loss (\w+))?', line)
        if command:
            for key in re.findall(r'\bmodel\.head\.loss[\w.]+', line):
                settings = read_config(str(FOLDER / f'{command[1]}.py'), loss=command[2])
                for part in key.split('.'):
                    assert part in settings, (key, command[0])
                    settings = settings[part]
                swept.append(key)
    assert len(swept) == 7


def test_every_link_and_picture_exists():
    anchors = {
        re.sub(r'[^\w -]', '', title.lower()).replace(' ', '-') for title in re.findall(r'^## (.*)$', TEXT, re.M)
    }
    assert set(re.findall(r'\]\(#([^)]+)\)', TEXT)) <= anchors
    pictures = re.findall(r'!\[[^]]+\]\((images/\w+\.png)\)', TEXT)
    assert len(pictures) >= 15
    assert [name for name in pictures if not (PAGE.parent / name).is_file()] == []
