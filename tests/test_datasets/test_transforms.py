"""Several views of one image: what a sample holds, and how it is drawn."""

import re
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.dataset import Compose, default_collate, pseudo_collate
from mmengine.registry import DATASETS, TRANSFORMS, DefaultScope
from torch.utils.data import DataLoader

from mmml_losses.datasets import PackViews

CONFIGS = Path(__file__).resolve().parents[2] / 'configs' / '_base_' / 'datasets'
JITTER = [dict(type='mmpretrain.ColorJitter', brightness=0.5), dict(type='mmpretrain.RandomCrop', crop_size=8)]
CENTRE = [dict(type='mmpretrain.CenterCrop', crop_size=8)]


@pytest.fixture(autouse=True)
def scope():
    """As inside a Runner of MMPretrain, whatever Runners of other tests left behind."""
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        yield


def loaded(**labels) -> dict:
    """Return what a pipeline has after the image is loaded."""
    image = np.random.RandomState(3).randint(0, 256, (12, 10, 3), dtype=np.uint8)
    return dict(img=image, img_path='a.png', img_shape=(12, 10), ori_shape=(12, 10), sample_idx=7, **labels)


def test_each_view_comes_from_its_own_pipeline_and_the_first_may_be_the_image_itself():
    results = loaded(gt_label=[1, 4])
    sample = PackViews(views=[[], CENTRE, JITTER])(results)
    image, centre, jittered = sample['inputs']
    pixels = torch.from_numpy(results['img']).permute(2, 0, 1)
    assert torch.equal(image, pixels)
    assert torch.equal(centre, pixels[:, 2:10, 1:9])
    assert jittered.shape == (3, 8, 8)


def test_labels_and_the_index_are_there_once_with_the_number_of_views():
    score = np.array([1, 0, -1, 0.5], dtype=np.float32)
    sample = PackViews(views=[[], JITTER])(loaded(gt_label=[0], gt_score=score))['data_samples']
    assert sample.gt_label.tolist() == [0]
    assert sample.gt_score.tolist() == score.tolist()
    assert (sample.sample_idx, sample.img_path, sample.num_views) == (7, 'a.png', 2)
    assert sample.img_shape == (12, 10)  # of the first view


def test_the_loaded_image_is_left_as_it_was():
    def blacken(results: dict) -> dict:
        results['img'][:] = 0
        results['gt_label'].sort()
        return results

    results = loaded(gt_label=[0, 3])
    before = results['img'].copy()
    views = PackViews(views=[[blacken], []])(results)['inputs']
    assert not views[0].any()
    assert torch.equal(views[1], torch.from_numpy(before).permute(2, 0, 1))
    np.testing.assert_array_equal(results['img'], before)


def test_views_are_drawn_apart_from_each_other_and_again_with_the_same_seed():
    transform = PackViews(views=[JITTER, JITTER, JITTER])

    def draw(seed: int) -> list[torch.Tensor]:
        np.random.seed(seed)
        torch.manual_seed(seed)
        return transform(loaded(gt_label=[0]))['inputs']

    first, again, other = draw(0), draw(0), draw(1)
    for one, two in ((0, 1), (0, 2), (1, 2)):
        assert not torch.equal(first[one], first[two])
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not any(torch.equal(a, b) for a, b in zip(first, other, strict=True))


def test_batches_are_lists_of_views_whichever_way_they_are_collated():
    transform = PackViews(views=[[], CENTRE])
    samples = [transform(loaded(gt_label=[label])) for label in range(4)]
    stacked, listed = default_collate(samples), pseudo_collate(samples)
    assert [tuple(view.shape) for view in stacked['inputs']] == [(4, 3, 12, 10), (4, 3, 8, 8)]
    for view, images in zip(stacked['inputs'], listed['inputs'], strict=True):
        assert torch.equal(view, torch.stack(list(images)))
    assert len(stacked['data_samples']) == len(listed['data_samples']) == 4


def test_an_image_that_a_view_gives_up_is_given_up():
    assert PackViews(views=[[], [lambda results: None]])(loaded(gt_label=[0])) is None


@pytest.mark.parametrize(
    ('key', 'value', 'shown'), [('gt_label', [2], r'tensor\(\[2\]\)'), ('gt_score', np.zeros(3, np.float32), 'None')]
)
def test_a_view_that_changes_labels_is_rejected(key, value, shown):
    def relabel(results: dict) -> dict:
        results[key] = value
        return results

    with pytest.raises(ValueError, match=rf'views must leave {key} as it is.*of view 1 and') as error:
        PackViews(views=[[], [relabel], []])(loaded(gt_label=[0]))
    assert re.search(shown, str(error.value))


def test_a_view_that_packs_by_itself_is_rejected():
    with pytest.raises(ValueError, match=r'views must leave an image for PackInputs to pack, got .* of view 0'):
        PackViews(views=[[dict(type='PackInputs')], []])(loaded(gt_label=[0]))


@pytest.mark.parametrize('views', [JITTER, dict(views=2), [[], 2]])
def test_views_that_are_no_pipelines_are_rejected(views):
    with pytest.raises(TypeError, match='views must be pipelines, a list of transforms for each view, got'):
        PackViews(views=views)


def test_a_single_view_is_rejected():
    with pytest.raises(ValueError, match='views must be pipelines of at least 2 views, got 1'):
        PackViews(views=[JITTER])


def test_it_is_built_by_its_name_and_packs_as_asked():
    pack = dict(type='mmpretrain.PackInputs', meta_keys=['img_path'], algorithm_keys=['true_label'])
    transform = TRANSFORMS.build(dict(type='mmml_losses.PackViews', views=[[], CENTRE], pack=pack))
    sample = transform(loaded(gt_label=[0], true_label=[0, 1]))['data_samples']
    assert 'sample_idx' not in sample
    assert sample.true_label == [0, 1]
    assert '2 views' in repr(transform)
    assert 'CenterCrop' in repr(transform)


def views_dataset(scenes_folder: Path):
    cfg = Config.fromfile(CONFIGS / 'digit_scenes_views.py').train_dataloader.dataset
    cfg.update(data_root=str(scenes_folder), num_train=64, num_test=48)
    return DATASETS.build(cfg)


def test_the_config_of_digit_scenes_makes_three_views(scenes_folder):
    dataset = views_dataset(scenes_folder)
    sample = dataset[5]
    assert [tuple(view.shape) for view in sample['inputs']] == [(3, 64, 64)] * 3
    assert len({view.numpy().tobytes() for view in sample['inputs']}) == 3
    scene = cv2.imread(dataset.get_data_info(5)['img_path'])
    assert torch.equal(sample['inputs'][0], torch.from_numpy(scene).permute(2, 0, 1))
    assert sample['data_samples'].gt_label.tolist() == dataset.get_data_info(5)['gt_label']


def test_workers_draw_views_by_the_seed(scenes_folder):
    def views() -> list[torch.Tensor]:
        loader = DataLoader(
            views_dataset(scenes_folder),
            batch_size=4,
            num_workers=1,
            collate_fn=default_collate,
            generator=torch.Generator().manual_seed(0),
        )
        return next(iter(loader))['inputs']

    assert all(torch.equal(a, b) for a, b in zip(views(), views(), strict=True))


def test_the_config_of_coco_makes_three_views_of_one_size(tmp_path):
    cfg = Config.fromfile(CONFIGS / 'coco2014_views.py')
    cv2.imwrite(str(tmp_path / 'a.jpg'), np.random.RandomState(0).randint(0, 256, (30, 50, 3), dtype=np.uint8))
    sample = Compose(cfg.train_dataloader.dataset.pipeline)(dict(img_path=str(tmp_path / 'a.jpg'), gt_label=[3, 79]))
    assert [tuple(view.shape) for view in sample['inputs']] == [(3, 224, 224)] * 3
    assert not torch.equal(sample['inputs'][1], sample['inputs'][2])
    assert sample['data_samples'].gt_label.tolist() == [3, 79]
