"""Test tools/extract_features.py as a user calls it, and trainings on its file."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.dataset import BaseDataset, ConcatDataset, RepeatDataset
from mmengine.registry import MODELS, DefaultScope

import mmml_losses.models  # noqa: F401 (registers what the configs name)
from mmml_losses.datasets import DigitScenes, FeatureDataset, MissingLabels
from mmml_losses.hosts.checkpoints import CheckpointError
from mmml_losses.procedures import extract_features as feature_extraction
from mmml_losses.procedures.extract_features import FeatureParts
from mmml_losses.procedures.feature_model import build_feature_model, pooled_features
from mmml_losses.utils.errors import UsageError
from tests.helpers.tools import run_tool

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / 'tools' / 'extract_features.py'
CONFIG = 'configs/bce_digits.py'
NUM_TRAIN, NUM_TEST = 64, 48


def few_scenes(folder, *more):
    options = ['test_dataloader.batch_size=7']
    for loader in ('train_dataloader', 'test_dataloader'):
        settings = dict(data_root=folder, num_train=NUM_TRAIN, num_test=NUM_TEST)
        options += [f'{loader}.dataset.{key}={value}' for key, value in settings.items()]
    return ['--cfg-options', *options, *more]


def build(cfg):
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        torch.manual_seed(0)
        return MODELS.build(dict(cfg.model, data_preprocessor=cfg.get('data_preprocessor'))).eval()


@pytest.fixture(scope='module')
def model():
    return build(Config.fromfile(ROOT / CONFIG))


@pytest.fixture(scope='module')
def checkpoint(model, tmp_path_factory):
    path = tmp_path_factory.mktemp('weights') / 'epoch_1.pth'
    torch.save(dict(state_dict=model.state_dict()), path)
    return path


@pytest.fixture
def call(monkeypatch, tmp_path):
    """Return a function that calls the tool in this process and returns its exit message, None without an error."""

    def run(*arguments):
        monkeypatch.chdir(ROOT)
        try:
            run_tool('extract_features.py', *arguments)
        except SystemExit as stopped:
            return stopped.code
        return None

    return run


@pytest.fixture(scope='module')
def extracted(checkpoint, scenes_folder, tmp_path_factory):
    """Run the tool from a shell and return the written file and the output."""
    out = tmp_path_factory.mktemp('extracted') / 'new' / 'features.npz'
    environment = {**os.environ, 'OMP_NUM_THREADS': '1', 'PYTHONPATH': str(ROOT)}
    command = [sys.executable, '-W', 'ignore', TOOL, CONFIG, checkpoint, '--out', out, *few_scenes(scenes_folder)]
    done = subprocess.run(list(map(str, command)), cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return out, done.stdout


def read(path):
    with np.load(path, allow_pickle=False) as arrays:
        return dict(arrays)


def scenes(folder, split='train', **kwargs):
    return DigitScenes(split, str(folder), num_train=NUM_TRAIN, num_test=NUM_TEST, **kwargs)


def test_features_are_those_of_the_model_in_the_order_of_the_dataset(extracted, model, scenes_folder):
    arrays = read(extracted[0])
    assert list(arrays) == [
        *('train_features', 'train_labels', 'train_ids', 'test_features', 'test_labels', 'test_ids'),
        *('classes', 'made_by'),
    ]
    assert (arrays['train_features'].shape, arrays['test_features'].shape) == ((NUM_TRAIN, 128), (NUM_TEST, 128))
    assert arrays['train_features'].dtype == np.float16
    cfg = Config.fromfile(ROOT / CONFIG)
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        dataset = scenes(scenes_folder, pipeline=cfg.test_pipeline, test_mode=True)
    for position in (0, 7, NUM_TRAIN - 1):
        inputs = model.data_preprocessor(dict(inputs=dataset[position]['inputs'][None]))['inputs']
        with torch.no_grad():
            expected = model.extract_feat(inputs, stage='neck')[-1][0].numpy()
        assert np.allclose(arrays['train_features'][position], expected, rtol=2e-3, atol=1e-4)
        assert np.flatnonzero(arrays['train_labels'][position]).tolist() == dataset.get_cat_ids(position)
        assert arrays['train_ids'][position] == Path(dataset.get_data_info(position)['img_path']).name
    assert tuple(arrays['classes']) == dataset.CLASSES
    assert json.loads(str(arrays['made_by'])) == dict(
        tool='extract_features.py', config='bce_digits.py', checkpoint='epoch_1.pth'
    )


def test_progress_is_printed_and_only_the_file_is_left(extracted):
    out, printed = extracted
    assert f'train: {NUM_TRAIN} of {NUM_TRAIN} images' in printed
    assert f'wrote {out}' in printed
    assert [path.name for path in out.parent.iterdir()] == ['features.npz']


def test_wrappers_draw_the_same_labels_for_features_as_for_images(extracted, scenes_folder):
    settings = dict(missing_ratio=0.5, seed=3)
    of_features = MissingLabels(FeatureDataset(str(extracted[0]), 'train'), **settings)
    of_images = MissingLabels(scenes(scenes_folder), **settings)
    assert np.array_equal(of_features.observed_labels(), of_images.observed_labels())


def test_a_head_trains_on_the_file(extracted, tmp_path):
    from mmengine.runner import Runner

    cfg = Config.fromfile(ROOT / 'configs' / 'bce_features.py')
    cfg.work_dir = str(tmp_path)
    cfg.train_cfg.update(max_epochs=2, val_interval=2)
    for loader in ('train_dataloader', 'val_dataloader', 'test_dataloader'):
        cfg[loader].dataset.ann_file = str(extracted[0])
    cfg.model.head.update(in_channels=128, num_classes=10)
    runner = Runner.from_cfg(cfg)
    runner.train()
    assert runner.test()['multi-label/mAP@class'] > 0


def interrupt_after(monkeypatch, images):
    """Let the model raise KeyboardInterrupt as Ctrl-C does, and count the images that it sees."""
    seen = []

    def counted(model, inputs):
        if images is not None and len(seen) >= images:
            raise KeyboardInterrupt
        seen.extend(inputs)
        return pooled_features(model, inputs)

    monkeypatch.setattr(feature_extraction, 'pooled_features', counted)
    return seen


@pytest.mark.parametrize('images', [30, NUM_TRAIN + 30])
def test_an_interrupted_extraction_resumes(monkeypatch, call, extracted, checkpoint, scenes_folder, tmp_path, images):
    out = tmp_path / 'features.npz'
    arguments = (CONFIG, checkpoint, '--out', out, *few_scenes(scenes_folder))
    seen = interrupt_after(monkeypatch, images)
    assert call(*arguments) == 130
    assert not out.exists()
    first = len(seen)
    seen = interrupt_after(monkeypatch, None)
    assert call(*arguments) is None
    # The images of finished batches are not seen again.
    assert first + len(seen) == NUM_TRAIN + NUM_TEST
    assert len(seen) < NUM_TRAIN + NUM_TEST
    whole, resumed = read(extracted[0]), read(out)
    assert list(whole) == list(resumed)
    for name, array in whole.items():
        if array.dtype.kind == 'f':
            assert np.allclose(array, resumed[name], rtol=2e-3, atol=1e-4)
        else:
            assert np.array_equal(array, resumed[name])
    assert [path.name for path in tmp_path.iterdir()] == ['features.npz']


def test_another_extraction_does_not_reuse_these_parts(monkeypatch, call, model, checkpoint, scenes_folder, tmp_path):
    out = tmp_path / 'features.npz'
    arguments = ('--out', out, *few_scenes(scenes_folder))
    interrupt_after(monkeypatch, 30)
    assert call(CONFIG, checkpoint, *arguments) == 130
    parts = {path: path.read_bytes() for path in (tmp_path / 'features.npz.parts').iterdir()}
    assert len(parts) > 1
    other = tmp_path / 'other.pth'
    torch.save({name: value + 1 for name, value in model.state_dict().items()}, other)
    for options, what in (
        ((CONFIG, other, *arguments), 'checkpoint: '),
        ((CONFIG, checkpoint, '--dtype', 'float32', *arguments), "dtype: 'float16' there, 'float32' now"),
        ((CONFIG, checkpoint, '--dataloader', 'train', *arguments), 'test.ids: '),
        ((CONFIG, checkpoint, *arguments, 'model.neck.p=2.0'), 'model.neck.p: 3.0 there, 2.0 now'),
        (
            (CONFIG, checkpoint, *arguments, 'train_dataloader.dataset.indices=60'),
            "train_dataset.indices: 'not set' there, 60 now",
        ),
    ):
        message = call(*options)
        assert message.startswith(f'{out}.parts holds work that was begun with other settings:\n')
        assert f'\n  {what}' in message
        assert message.endswith('\nChoose another --out, or delete the folder to start anew.')
    assert {path: path.read_bytes() for path in (tmp_path / 'features.npz.parts').iterdir()} == parts


def test_repeated_images_are_taken_once(call, checkpoint, scenes_folder, tmp_path):
    config, out = tmp_path / 'repeated.py', tmp_path / 'features.npz'
    config.write_text(
        f"_base_ = '{ROOT / CONFIG}'\n"
        'train_dataloader = dict(dataset=dict(_delete_=True, type="RepeatDataset", times=3, dataset=dict('
        "type='mmml_losses.SinglePositive', seed=0, dataset=_base_.train_dataloader.dataset)))\n"
    )
    options = [
        option.replace('train_dataloader.dataset', 'train_dataloader.dataset.dataset.dataset')
        for option in few_scenes(scenes_folder)
    ]
    assert call(config, checkpoint, '--out', out, '--dataloader', 'train', '--dtype', 'float32', *options) is None
    arrays = read(out)
    assert arrays['train_features'].shape == (NUM_TRAIN, 128)
    assert arrays['train_features'].dtype == np.float32
    assert (arrays['train_labels'].sum(axis=1) <= 1).all()
    true = FeatureDataset(str(out), 'train', labels='train_true_labels')
    images = scenes(scenes_folder)
    assert all(true.get_cat_ids(idx) == images.get_cat_ids(idx) for idx in range(NUM_TRAIN))


def test_datasets_that_repeat_images_are_known_by_their_class_too(scenes_folder):
    cfg = Config.fromfile(ROOT / CONFIG)
    for loader in (cfg.train_dataloader, cfg.test_dataloader):
        loader.dataset.update(data_root=str(scenes_folder), num_train=NUM_TRAIN, num_test=NUM_TEST)
    # New-style configs hold classes instead of names.
    cfg.train_dataloader.dataset = dict(type=RepeatDataset, times=3, dataset=cfg.train_dataloader.dataset)
    assert len(feature_extraction.prepare_split(cfg, 'train', CONFIG).dataset) == NUM_TRAIN


def test_images_of_one_name_in_two_datasets_make_a_file_that_can_be_read(tmp_path):
    class Images(BaseDataset):
        METAINFO = dict(classes=('yes', 'no'))

        def load_data_list(self):
            labels = dict(gt_score=np.array([0.5, 0], dtype=np.float32)) if self.data_root == 'soft' else {}
            return [dict(img_path=f'{self.data_root}/{name}', gt_label=[0], **labels) for name in ('a.png', 'b.png')]

    for roots in (('one', 'two'), ('soft', 'soft')):
        dataset = ConcatDataset([Images(data_root=root) for root in roots])
        _, arrays = feature_extraction._read_arrays(dataset, 'train')
        assert arrays['ids'].tolist() == ['a.png', 'b.png', 'a.png#2', 'b.png#2']
        np.savez(tmp_path / 'features.npz', features=np.ones((4, 3), dtype=np.float32), **arrays)
        assert FeatureDataset(str(tmp_path / 'features.npz')).get_data_info(3)['sample_name'] == 'b.png#2'


def test_a_row_that_was_cut_off_is_made_again(tmp_path):
    features = np.arange(12, dtype=np.float32).reshape(4, 3)

    def parts() -> FeatureParts:
        return FeatureParts(tmp_path / 'features.npz', dict(model='a'), 'float32')

    parts().add('train', features[:2])
    parts().add('train', features[2:])
    file = tmp_path / 'features.npz.parts' / 'train_features.raw'
    whole = file.read_bytes()
    for size, rows in ((0, 0), (5, 0), (len(whole) - 5, 3)):
        file.write_bytes(whole[:size])
        assert parts().count('train') == rows
        parts().add('train', features[rows:])
        assert file.read_bytes() == whole
    file.unlink()
    assert parts().count('train') == 0
    file.write_bytes(whole)
    parts().join(dict(train={}))
    assert np.array_equal(read(tmp_path / 'features.npz')['train_features'], features)


def test_bad_calls_end_with_one_sentence(call, extracted, checkpoint, scenes_folder, tmp_path):
    out, options = tmp_path / 'features.npz', few_scenes(scenes_folder)
    before = extracted[0].read_bytes()
    cut_off, foreign = tmp_path / 'cut_off.pth', tmp_path / 'foreign.pth'
    cut_off.write_bytes(checkpoint.read_bytes()[:5000])
    torch.save(dict(weight=torch.zeros(3)), foreign)
    for arguments, message in (
        ((CONFIG, checkpoint, '--out', extracted[0], *options), f'--out: {extracted[0]} exists, pass --overwrite'),
        ((CONFIG, checkpoint, '--out', 'features.pkl', *options), "--out must end with '.npz', got 'features.pkl'"),
        ((CONFIG, 'nothing.pth', '--out', out, *options), 'checkpoint nothing.pth does not exist'),
        ((CONFIG, 'nothing.safetensors', '--out', out, *options), 'checkpoint nothing.safetensors does not exist'),
        ((CONFIG, cut_off, '--out', out, *options), f'checkpoint {cut_off} cannot be read'),
        (
            (CONFIG, foreign, '--out', out, *options),
            f"checkpoint {foreign} does not fit ResNet: it has no 'conv1.weigh",
        ),
        (('nothing.py', checkpoint, '--out', out), 'config nothing.py does not exist'),
        (('configs/spa_lpr_coco.py', checkpoint, '--out', out), f'checkpoint {checkpoint} does not fit'),
        ((CONFIG, checkpoint, '--out', out, '--cfg-options', 'train_dataloader=None'), 'the config has no train_datal'),
        (
            (CONFIG, checkpoint, '--out', out, '--device', 'abacus', *options),
            "--device must be a device of this machine, such as cpu, got 'abacus': ",
        ),
    ):
        assert str(call(*arguments)).startswith(message)
    assert extracted[0].read_bytes() == before
    assert not out.exists()


def small_model(backbone, neck=None) -> Config:
    head = dict(type='mmml_losses.MultiLabelHead', num_classes=10, in_channels=8)
    return Config(dict(model=dict(type='ImageClassifier', backbone=backbone, neck=neck, head=head)))


@pytest.mark.parametrize('neck', [None, dict(type='GlobalAveragePooling')])
@pytest.mark.parametrize('name', ['test_vit', 'test_resnet'])
@pytest.mark.parametrize('ending', ['.pth', '.safetensors'])
def test_models_of_timm_are_pooled_as_in_timm(name, neck, ending, tmp_path):
    timm = pytest.importorskip('timm')
    torch.manual_seed(0)
    reference = timm.create_model(name).eval()
    path = str(tmp_path / f'weights{ending}')
    if ending == '.pth':
        torch.save(reference.state_dict(), path)
    else:
        pytest.importorskip('safetensors.torch').save_file(reference.state_dict(), path)
    cfg = small_model(dict(type='TIMMBackbone', model_name=name, pretrained=True), neck)  # nothing is downloaded
    model = build_feature_model(cfg, path)
    images = torch.randn(2, 3, 160, 160)
    with torch.no_grad():
        expected = reference.forward_head(reference.forward_features(images), pre_logits=True)
        assert torch.equal(pooled_features(model, images), expected)


def test_tokens_are_not_averaged_silently(tmp_path):
    backbone = dict(type='VisionTransformer', arch='deit-t', img_size=32, patch_size=16, out_type='cls_token')
    whole = build(small_model(backbone))
    path = str(tmp_path / 'backbone.pth')
    torch.save(dict(model={f'module.{name}': value for name, value in whole.backbone.state_dict().items()}), path)
    images = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        model = build_feature_model(small_model(backbone), path)
        assert torch.equal(pooled_features(model, images), whole.backbone(images)[-1])
        mapped = build_feature_model(small_model(dict(backbone, out_type='featmap')), path)
        assert torch.equal(pooled_features(mapped, images), mapped.backbone(images)[-1].mean(dim=(2, 3)))
        tokens = build_feature_model(small_model(dict(backbone, out_type='raw')), path)
        with pytest.raises(UsageError, match=r'the backbone VisionTransformer gives tokens of shape \(2, 5, 192\)'):
            pooled_features(tokens, images)


def test_positions_behind_the_channels_are_pooled_by_the_neck_that_is_made_for_them(tmp_path):
    backbone = dict(type='MlpMixer', arch='s', img_size=32, patch_size=16)
    cfg = small_model(backbone, dict(type='GlobalAveragePooling', dim=1))
    whole = build(cfg)
    path = str(tmp_path / 'weights.pth')
    torch.save(whole.state_dict(), path)
    images = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        maps = whole.backbone(images)[-1]
        assert maps.shape == (2, 512, 4)
        features = pooled_features(build_feature_model(cfg, path), images)
    torch.testing.assert_close(features, maps.mean(dim=2))


def test_two_outputs_of_a_backbone_are_concatenated(tmp_path):
    cfg = small_model(dict(type='DistilledVisionTransformer', arch='deit-t', img_size=32, patch_size=16))
    whole = build(cfg)
    path = str(tmp_path / 'weights.pth')
    torch.save(whole.backbone.state_dict(), path)
    images = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        class_token, distillation_token = whole.backbone(images)[-1]
        features = pooled_features(build_feature_model(cfg, path), images)
    assert torch.equal(features, torch.cat([class_token, distillation_token], dim=1))


def test_weights_that_features_need_must_be_there(model, tmp_path):
    cfg = Config.fromfile(ROOT / CONFIG)
    path = str(tmp_path / 'weights.pth')
    weights = {name: value for name, value in model.state_dict().items() if not name.startswith('head.')}
    torch.save(weights, path)
    build_feature_model(cfg, path)
    torch.save({name: value for name, value in weights.items() if 'layer2.0.conv1' not in name}, path)
    with pytest.raises(CheckpointError, match=r"it has no 'backbone\.layer2\.0\.conv1\.weight'"):
        build_feature_model(cfg, path)
    torch.save(weights | {'backbone.conv1.weight': torch.zeros(1)}, path)
    with pytest.raises(CheckpointError, match=r'does not fit the model: size mismatch for backbone\.conv1\.weight'):
        build_feature_model(cfg, path)
    torch.save(dict(epoch=3), path)
    with pytest.raises(CheckpointError, match='has no weights'):
        build_feature_model(cfg, path)
    with_neck = small_model(cfg.model.backbone, dict(type='LinearNeck', in_channels=128, out_channels=8, gap_dim=2))
    torch.save(model.backbone.state_dict(), path)
    with pytest.raises(CheckpointError, match=r"it has no 'neck\.fc\.weight' and \d others"):
        build_feature_model(with_neck, path)


def test_soft_labels_are_kept(tmp_path):
    class Answers(BaseDataset):
        METAINFO = dict(classes=('yes', 'no'))

        def load_data_list(self):
            scores = np.array([[0.3, 1], [0, 0.6]], dtype=np.float32)
            return [dict(img_path=f'/images/{at}.png', gt_label=[1], gt_score=row) for at, row in enumerate(scores)]

    classes, arrays = feature_extraction._read_arrays(Answers(), 'train')
    assert classes == ('yes', 'no')
    assert np.allclose(arrays['labels'], [[0.3, 1], [0, 0.6]])
    assert arrays['ids'].tolist() == ['0.png', '1.png']


@pytest.mark.parametrize('content', [None, b'', b'no image'], ids=['missing', 'empty', 'damaged'])
@pytest.mark.parametrize('workers', [0, 1])
def test_an_image_that_cannot_be_read_is_named(call, checkpoint, scenes_folder, tmp_path, content, workers):
    shutil.copytree(scenes_folder, tmp_path / 'scenes')
    image = tmp_path / 'scenes' / 'train' / '000009.png'
    image.unlink()
    if content is not None:
        image.write_bytes(content)
    settings = [f'test_dataloader.num_workers={workers}', f'test_dataloader.persistent_workers={workers > 0}']
    options = few_scenes(tmp_path / 'scenes', *settings)
    message = call(CONFIG, checkpoint, '--out', tmp_path / 'features.npz', *options)
    assert message.startswith('an image cannot be read, or features not be written: ')
    assert f'{image} cannot be loaded: ' in message
    assert message.count('\n') == 0
    assert not (tmp_path / 'features.npz').exists()


def test_features_that_do_not_fit_their_type_are_rejected(tmp_path):
    parts = FeatureParts(tmp_path / 'features.npz', dict(model='a'), 'float16')
    with pytest.raises(UsageError, match='not finite: they may be too large for float16, try --dtype float32'):
        parts.add('train', np.full((2, 3), 1e6, dtype=np.float32))
    assert parts.count('train') == 0
