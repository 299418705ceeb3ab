"""Test that openmim finds every config: model-index.yml imports a file for each paper, and the package ships them."""

import re

import yaml

from .conftest import CONFIGS, FOLDER

ROOT = FOLDER.parent
IMPORTS = yaml.safe_load((ROOT / 'model-index.yml').read_text())['Import']
INDICES = [yaml.safe_load((ROOT / name).read_text()) for name in IMPORTS]
MODELS = [model for index in INDICES for model in index['Models']]


def test_every_config_is_a_model_once():
    files = [*CONFIGS, *(FOLDER / 'det').glob('*.py')]
    assert sorted(model['Name'] for model in MODELS) == sorted(config.stem for config in files)
    assert sorted(model['Config'] for model in MODELS) == sorted(str(config.relative_to(ROOT)) for config in files)
    assert all(model['Metadata']['Training Data'] for model in MODELS)


def test_every_model_is_in_the_collection_of_its_file_whose_page_exists():
    for index in INDICES:
        (collection,) = index['Collections']
        assert {model['In Collection'] for model in index['Models']} == {collection['Name']}
        assert (ROOT / collection['README']).is_file()


def test_the_index_imports_every_file_of_models():
    assert sorted(IMPORTS) == sorted(str(file.relative_to(ROOT)) for file in FOLDER.rglob('*.yml'))


def test_the_package_ships_what_openmim_looks_for():
    (shipped,) = re.findall(r'SHIPPED_FOR_MIM = \((.*)\)', (ROOT / 'setup.py').read_text())
    assert shipped == "'configs', 'tools', 'model-index.yml'"
    assert 'model-index.yml' in (ROOT / 'MANIFEST.in').read_text()
