"""Labels with probabilities, for files and folders."""

import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.registry import DefaultScope
from mmengine.runner import save_checkpoint
from mmpretrain.registry import MODELS
from PIL import Image

from mmml_losses.hosts.checkpoints import CheckpointError
from mmml_losses.losses import SPALoss
from mmml_losses.models import MultiLabelInferencer


@pytest.fixture
def model(small_run, tmp_path):
    """Return a config, and a checkpoint of random weights with class names."""
    cfg: Config = small_run('spa_lpr_digits.py')
    cfg.model.head.thr = 0.2
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        network = MODELS.build(cfg.model)
    torch.nn.init.normal_(network.head.fc.weight)
    meta = dict(dataset_meta=dict(classes=tuple('0123456789')), cfg='raise SystemExit("code from a checkpoint ran")')
    save_checkpoint(dict(state_dict=network.state_dict(), meta=meta), str(tmp_path / 'model.pth'))
    return cfg, tmp_path / 'model.pth'


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / 'images'
    folder.mkdir()
    rng = np.random.RandomState(0)
    for number in range(3):
        Image.fromarray(rng.randint(0, 256, (64, 64), dtype=np.uint8)).save(folder / f'{number}.png')
    (folder / 'notes.txt').write_text('not an image')
    return folder


def test_it_is_made_under_the_scope_of_another_project(model):
    with DefaultScope.overwrite_default_scope('mmengine'):
        assert MultiLabelInferencer(*model).pipeline.transforms[-1].__module__.startswith('mmpretrain')


def test_a_folder_gives_every_image_its_labels(model, folder):
    results = MultiLabelInferencer(*model)(folder, batch_size=2)
    assert [result['img_path'] for result in results] == [str(folder / f'{number}.png') for number in range(3)]
    for result in results:
        assert result['scores'].shape == (10,)
        chosen = [(score, str(digit)) for digit, score in enumerate(result['scores']) if score >= 0.2]
        assert result['labels'] == [digit for _, digit in sorted(chosen, reverse=True)]
        assert result['probabilities'] == sorted(result['probabilities'], reverse=True)


def test_probabilities_are_those_of_the_link(model, folder):
    inferencer = MultiLabelInferencer(*model)
    image = inferencer.pipeline(dict(img=np.array(Image.open(folder / '0.png').convert('RGB')), img_shape=(64, 64)))
    data = inferencer.model.data_preprocessor(dict(inputs=[image['inputs']], data_samples=[image['data_samples']]))
    logits = inferencer.model(data['inputs'], data['data_samples'], mode='tensor')
    logits = logits if isinstance(logits, torch.Tensor) else inferencer.model.head(logits)
    expected = SPALoss().probabilities(logits).detach().numpy()[0]
    np.testing.assert_allclose(inferencer(folder / '0.png')[0]['scores'], expected, rtol=1e-5)


def test_files_arrays_and_lists_are_taken(model, folder):
    inferencer = MultiLabelInferencer(*model)
    array = np.array(Image.open(folder / '1.png').convert('RGB'))
    single, listed = inferencer(str(folder / '1.png')), inferencer([folder / '0.png', array])
    assert [result['img_path'] for result in listed] == [str(folder / '0.png'), None]
    np.testing.assert_allclose(single[0]['scores'], listed[1]['scores'])


def test_drawings_and_data_samples_are_as_in_mmpretrain(model, folder, tmp_path):
    samples = MultiLabelInferencer(*model)(folder, return_datasamples=True, show_dir=str(tmp_path / 'drawn'))
    assert len(list((tmp_path / 'drawn').glob('*.png'))) == len(samples) == 3


def test_inputs_without_images_are_rejected(model, folder, tmp_path):
    inferencer = MultiLabelInferencer(*model)
    with pytest.raises(FileNotFoundError, match=r'nothing\.png is neither'):
        inferencer(folder / 'nothing.png')
    (tmp_path / 'empty').mkdir()
    with pytest.raises(FileNotFoundError, match=r'must hold images .* has none'):
        inferencer(tmp_path / 'empty')
    with pytest.raises(CheckpointError, match=r'other\.pth does not exist'):
        MultiLabelInferencer(model[0], tmp_path / 'other.pth')
