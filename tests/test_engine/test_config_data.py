"""Test that missing files are named before anything is loaded."""

import pytest
from mmengine.config import Config
from mmengine.registry import DATASETS, DefaultScope

from mmml_losses.datasets import FeatureDataset, MissingDataError, MissingLabels
from mmml_losses.engine.config_data import require_data
from mmml_losses.engine.resuming import train
from mmml_losses.utils.errors import UsageError
from tests.conftest import ROOT
from tests.helpers.few_features import feature_config, write_features


def relabelled(labels, dataset):
    return dict(type='mmml_losses.Relabelled', labels=str(labels), dataset=dataset)


def coco(root):
    return dict(type='mmml_losses.CocoMultiLabel', ann_file='a.json', data_root=str(root), data_prefix='img')


@pytest.fixture
def complete(tmp_path):
    """Return the config of a dataset whose files exist, but cannot be read and must not be."""
    (tmp_path / 'img').mkdir()
    (tmp_path / 'img' / '1.png').touch()
    (tmp_path / 'a.json').touch()
    return coco(tmp_path)


def test_a_missing_label_file_is_named_with_what_makes_one(tmp_path, complete):
    inner = relabelled(tmp_path / 'first.json', dict(type='RepeatDataset', times=2, dataset=complete))
    outer = dict(type='ConcatDataset', datasets=[relabelled(tmp_path / 'second.txt.gz', inner), complete])
    with pytest.raises(MissingDataError) as caught:
        require_data(Config(dict(train_dataloader=dict(dataset=outer))), 'x.py')
    assert caught.value.missing == [str(tmp_path / 'second.txt.gz'), str(tmp_path / 'first.json')]
    assert str(caught.value).splitlines()[1:] == [
        f'  {tmp_path}/second.txt.gz',
        f'  {tmp_path}/first.json',
        'tools/make_labels.py writes labels that a config draws, tools/pseudo_label.py corrected ones.',
    ]


def test_data_inside_is_named_as_well(tmp_path):
    cfg = Config(dict(train_dataloader=dict(dataset=relabelled(tmp_path / 'labels.json', coco(tmp_path / 'coco')))))
    with pytest.raises(MissingDataError, match=r'Without any download.*\n.*configs/spa_lpr_digits\.py') as caught:
        require_data(cfg, str(ROOT / 'configs' / 'x.py'))
    assert len(caught.value.missing) == 3


def test_a_label_file_that_is_there_is_not_read(tmp_path, complete):
    (tmp_path / 'labels.json').touch()
    require_data(Config(dict(train_dataloader=dict(dataset=relabelled(tmp_path / 'labels.json', complete)))), 'x.py')


def test_a_label_file_of_another_kind_is_one_sentence(tmp_path, complete):
    cfg = Config(dict(train_dataloader=dict(dataset=relabelled('labels.pkl', complete))))
    with pytest.raises(
        UsageError, match=r"a Relabelled that cannot be built: labels must be a file .* got 'labels\.pkl'"
    ):
        require_data(cfg, 'x.py')


@pytest.mark.needs_mmdet
def test_annotations_of_mmdetection_are_missed_with_a_detector_that_needs_none(tmp_path):
    pytest.importorskip('mmdet')
    files = [tmp_path / 'retinanet_asl_digits.py', tmp_path / 'spa_lpr_digits.py']
    for file in files:
        file.touch()
    dataset = dict(type='CocoDataset', data_root=str(tmp_path), ann_file='a.json', data_prefix=dict(img='train/'))
    wrapped = dict(type='mmml_losses.MissingBoxes', missing_ratio=0.5, dataset=dataset)
    cfg = Config(dict(default_scope='mmdet', train_dataloader=dict(dataset=wrapped)))
    with pytest.raises(MissingDataError, match=r'python tools/train\.py .*/retinanet_asl_digits\.py') as caught:
        require_data(cfg, str(tmp_path / 'retinanet_two_way_coco.py'))
    assert caught.value.missing == [str(tmp_path / 'a.json'), f'{tmp_path}/train/']
    with pytest.raises(MissingDataError, match=r'must be there and are not:\n  .*a\.json\n  .*train/$'):
        require_data(cfg, 'elsewhere/mine.py')
    (tmp_path / 'a.json').touch()
    (tmp_path / 'train').mkdir()
    require_data(cfg, 'x.py')


@pytest.mark.needs_mmdet
@pytest.mark.parametrize(
    'place', [dict(data_root='s3://bucket'), dict(data_root='nowhere', backend_args=dict(backend='petrel'))]
)
def test_what_lies_elsewhere_is_not_missed(place):
    pytest.importorskip('mmdet')
    remote = dict(type='CocoDataset', ann_file='a.json', data_prefix=dict(img='train/'), **place)
    require_data(Config(dict(default_scope='mmdet', train_dataloader=dict(dataset=remote))), 'x.py')


def test_a_training_builds_and_loads_each_dataset_once(tmp_path, monkeypatch):
    cfg = feature_config(write_features(tmp_path / 'features.npz'), tmp_path / 'run', max_epochs=2)
    hidden = dict(type='mmml_losses.MissingLabels', missing_ratio=0.5, dataset=cfg.train_dataloader.dataset)
    cfg.train_dataloader.dataset = dict(type='RepeatDataset', times=2, dataset=hidden)
    with DefaultScope.overwrite_default_scope(cfg.default_scope):
        expected = DATASETS.build(cfg.train_dataloader.dataset)
    built = []

    def count(kind):
        build = kind.__init__

        def counted(self, *args, **kwargs):
            built.append(kind)
            build(self, *args, **kwargs)

        monkeypatch.setattr(kind, '__init__', counted)

    count(FeatureDataset)
    count(MissingLabels)
    text = cfg.pretty_text
    datasets = require_data(cfg, 'x.py')
    assert not any(dataset._fully_initialized for _, dataset in datasets)
    runner = train(cfg, datasets)
    assert sorted(kind.__name__ for kind in built) == ['FeatureDataset'] * 3 + ['MissingLabels']
    found = runner.train_dataloader.dataset
    assert any(dataset is found.dataset for _, dataset in datasets)
    assert runner.cfg.pretty_text == text
    rows = range(len(expected))
    assert [found.get_data_info(row)['gt_label'] for row in rows] == [
        expected.get_data_info(row)['gt_label'] for row in rows
    ]
    assert all(found[row]['inputs'].equal(expected[row]['inputs']) for row in rows)


def test_a_pipeline_that_cannot_be_built_is_reported_by_the_runner(tmp_path):
    dataset = dict(type='mmml_losses.DigitScenes', data_root=str(tmp_path), pipeline=[dict(type='NotBuilt')])
    assert require_data(Config(dict(train_dataloader=dict(dataset=dataset))), 'x.py') == []
