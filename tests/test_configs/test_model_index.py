"""What openmim finds: model-index.yml names every config, and the package ships it."""

import re

import yaml

from .conftest import CONFIGS, FOLDER

ROOT = FOLDER.parent
INDEX = yaml.safe_load((ROOT / 'model-index.yml').read_text())


def test_every_config_is_a_model_of_a_known_collection():
    collections = {collection['Name'] for collection in INDEX['Collections']}
    files = [*CONFIGS, *sorted((FOLDER / 'det').glob('*.py'))]
    assert [model['Name'] for model in INDEX['Models']] == [config.stem for config in files]
    assert [model['Config'] for model in INDEX['Models']] == [str(config.relative_to(ROOT)) for config in files]
    for model in INDEX['Models']:
        assert model['In Collection'] in collections
        assert model['Metadata']['Training Data']
    assert {model['In Collection'] for model in INDEX['Models']} == collections


def test_the_package_ships_what_openmim_looks_for():
    (shipped,) = re.findall(r'SHIPPED_FOR_MIM = \((.*)\)', (ROOT / 'setup.py').read_text())
    assert shipped == "'configs', 'tools', 'model-index.yml'"
    assert 'model-index.yml' in (ROOT / 'MANIFEST.in').read_text()
