import hashlib
import json
import multiprocessing
import os
import time
from collections import defaultdict
from pathlib import Path

import cv2
import numpy as np
import pytest

from mmml_losses.datasets import DigitScenes, make_digit_scenes
from mmml_losses.datasets.digit_scenes import SceneSettings
from mmml_losses.datasets.digit_scenes import dataset as files
from mmml_losses.datasets.digit_scenes.generator import SceneGenerator, load_digit_images, split_sources
from mmml_losses.registry import DATASETS

FEW = dict(num_train=30, num_test=20)
DIGITS = tuple('0123456789')
# Of the 50 scenes of ``FEW`` with seed 7. Other machines and versions must get the same; see ``files.FORMAT``.
PIXELS = '9cf0f9714ff0f877f67ba09bfb1e65482933e047a3822b7574c9b90036eb147c'
ANNOTATIONS = '606518ca40fafbda36d1e8e1d2afb0d8b1022a1dc64354082c07fb3151a71220'


@pytest.fixture(scope='module')
def root(tmp_path_factory) -> Path:
    return make_digit_scenes(tmp_path_factory.mktemp('data') / 'digit_scenes', seed=7, **FEW)


def annotations(root: Path, split: str) -> dict:
    return json.loads((root / 'annotations' / f'instances_{split}.json').read_text())


def pixels(path: Path) -> np.ndarray:
    return cv2.imread(str(path), cv2.IMREAD_UNCHANGED)


def label_matrix(count: int, **settings) -> np.ndarray:
    """Labels of many scenes without their pixels."""
    generator = SceneGenerator(SceneSettings(**settings), 'train')
    rng = np.random.RandomState(0)
    matrix = np.zeros((count, 10), dtype=bool)
    for row in matrix:
        row[generator._draw_digits(rng)] = True
    return matrix


def test_same_seed_gives_the_same_pixels_and_annotations_on_every_machine(root):
    seen, told = hashlib.sha256(), hashlib.sha256()
    for split in ('train', 'test'):
        content = annotations(root, split)
        told.update(json.dumps([content['images'], content['annotations'], content['categories']]).encode())
        for image in content['images']:
            seen.update(pixels(root / split / image['file_name']).tobytes())
    assert seen.hexdigest() == PIXELS
    assert told.hexdigest() == ANNOTATIONS


def test_a_longer_dataset_begins_with_the_shorter_one_and_another_seed_differs():
    short, long, other = (
        SceneGenerator(SceneSettings(**settings), 'train')
        for settings in (dict(num_train=5), dict(num_train=50), dict(seed=1))
    )
    assert np.array_equal(short.scene(3)[0], long.scene(3)[0])
    assert not np.array_equal(short.scene(3)[0], other.scene(3)[0])


def test_train_and_test_share_no_digit_image(root):
    _, targets = load_digit_images()
    sources = split_sources(targets, seed=7)
    train, test = (set(np.concatenate(sources[split]).tolist()) for split in ('train', 'test'))
    assert not train & test
    assert train | test == set(range(len(targets)))
    assert {annotation['source'] for annotation in annotations(root, 'train')['annotations']} <= train
    assert {annotation['source'] for annotation in annotations(root, 'test')['annotations']} <= test
    assert set(SceneGenerator(SceneSettings(seed=7), 'test').pool.tolist()) == test


def test_the_files_are_what_a_detector_reads(root):
    content = annotations(root, 'train')
    assert [category['id'] for category in content['categories']] == list(range(1, 11))
    assert content['info']['settings'] == SceneSettings(seed=7, **FEW).as_dict()
    for image in content['images']:
        assert pixels(root / 'train' / image['file_name']).shape == (image['height'], image['width']) == (64, 64)
    for annotation in content['annotations']:
        x, y, width, height = annotation['bbox']
        assert min(x, y) >= 0
        assert min(width, height) > 0
        assert max(x + width, y + height) <= 64
        assert annotation['area'] == width * height


def test_boxes_hold_all_ink_and_are_tight():
    _, targets = load_digit_images()
    generator = SceneGenerator(SceneSettings(background=(0, 0), noise=0, clutter=0, contrast=(1, 1)), 'train')
    for number in range(50):
        scene, placed = generator.scene(number)
        outside = scene.copy()
        for box in placed:
            assert targets[box.source] == box.digit
            inside = scene[box.y : box.y + box.height, box.x : box.x + box.width]
            assert all(edge.any() for edge in (inside[0], inside[-1], inside[:, 0], inside[:, -1]))
            outside[box.y : box.y + box.height, box.x : box.x + box.width] = 0
        assert not outside.any()


def test_labels_are_the_digits_with_boxes(root):
    content = annotations(root, 'test')
    digits = defaultdict(set)
    for annotation in content['annotations']:
        digits[annotation['image_id']].add(annotation['category_id'] - 1)
    dataset = DigitScenes('test', str(root), seed=7, **FEW)
    assert len(dataset) == 20
    assert dataset.CLASSES == DIGITS
    for i in range(len(dataset)):
        info = dataset.get_data_info(i)
        assert info['gt_label'] == sorted(digits[info['img_id']])
        assert Path(info['img_path']).is_file()


def test_frequencies_come_near_the_asked_ones():
    frequencies = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
    found = label_matrix(8000, class_frequencies=frequencies, co_occurrence=[(2, 4, 0.4), (4, 6, -0.3)]).mean(axis=0)
    # Four standard errors.
    assert np.abs(found - frequencies).max() < 4 * np.sqrt(0.25 / 8000)


def test_default_scenes_are_imbalanced_and_hold_about_two_labels():
    matrix = label_matrix(4000)
    assert 2 < matrix.sum(axis=1).mean() < 2.5
    assert matrix[:, 0].mean() > 5 * matrix[:, 9].mean()
    assert 0 < (~matrix.any(axis=1)).mean() < 0.15


def test_pairs_have_the_asked_correlation_and_others_have_none():
    asked = {(2, 4): 0.4, (4, 6): -0.3, (0, 4): 0.2}
    pairs = [(*pair, correlation) for pair, correlation in asked.items()]
    found = np.corrcoef(label_matrix(8000, class_frequencies=[0.3] * 10, co_occurrence=pairs).T)
    for pair, correlation in asked.items():
        assert abs(found[pair] - correlation) < 0.05
    assert abs(found[1, 9]) < 0.05


def test_difficulty_settings_show_in_the_pixels():
    plain = dict(
        background=(40, 40), noise=0, clutter=0, contrast=(1, 1), class_frequencies=[1e-9] * 10, co_occurrence=()
    )
    assert (SceneGenerator(SceneSettings(**plain), 'train').scene(1)[0] == 40).all()
    noisy = SceneGenerator(SceneSettings(**plain | dict(noise=9, background=(100, 100))), 'train').scene(1)[0]
    assert abs(noisy.std() - 9) < 1
    cluttered = SceneGenerator(SceneSettings(**plain | dict(clutter=9)), 'train')
    assert any((cluttered.scene(i)[0] > 200).any() for i in range(5))
    assert not any(cluttered.scene(i)[1] for i in range(5))


def test_crowded_scenes_stay_inside_the_image():
    generator = SceneGenerator(
        SceneSettings(image_size=33, digit_size=(22, 22), rotation=45, class_frequencies=[0.9] * 10, co_occurrence=()),
        'test',
    )
    for number in range(10):
        scene, placed = generator.scene(number)
        assert scene.shape == (33, 33)
        assert all(0 <= box.x <= 33 - box.width and 0 <= box.y <= 33 - box.height for box in placed)


def test_lazy_datasets_write_nothing_and_miss_nothing(tmp_path):
    cfg = dict(
        type='mmml_losses.DigitScenes', data_root=str(tmp_path / 'scenes'), lazy_init=True, num_train=3, num_test=2
    )
    dataset = DATASETS.build(cfg)
    assert dataset.missing_files() == []
    assert dataset.CLASSES == DIGITS
    assert list(tmp_path.iterdir()) == []
    dataset.full_init()
    assert len(dataset) == 3
    assert [path.name for path in tmp_path.iterdir()] == ['scenes']


def _make_and_report(root: str, start, results) -> None:
    start.wait()
    try:
        results.put(len(DigitScenes('train', root, **FEW)))
    except BaseException as error:
        results.put(repr(error))


def test_processes_that_start_at_once_share_one_result(tmp_path):
    context = multiprocessing.get_context('fork')
    start, results = context.Event(), context.Queue()
    arguments = (str(tmp_path / 'scenes'), start, results)
    processes = [context.Process(target=_make_and_report, args=arguments) for _ in range(3)]
    for process in processes:
        process.start()
    start.set()
    assert [results.get(timeout=30) for _ in processes] == [30] * 3
    for process in processes:
        process.join()
    assert [path.name for path in tmp_path.iterdir()] == ['scenes']


def test_the_second_to_finish_uses_what_is_there(tmp_path, monkeypatch):
    root = tmp_path / 'scenes'
    write_split = files._write_split

    def other_process_first(folder, split, settings):
        monkeypatch.setattr(files, '_write_split', write_split)
        make_digit_scenes(root, num_train=2, num_test=1)
        write_split(folder, split, settings)

    monkeypatch.setattr(files, '_write_split', other_process_first)
    make_digit_scenes(root, num_train=2, num_test=1)
    assert [path.name for path in tmp_path.iterdir()] == ['scenes']


@pytest.mark.parametrize('error', [KeyboardInterrupt('Ctrl-C'), OSError('No space left on device')])
def test_an_interrupted_generation_leaves_nothing(tmp_path, monkeypatch, error):
    def fail(*_, **__):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(files.json, 'dumps', fail)  # the images are written by then
        with pytest.raises(type(error), match=str(error)):
            make_digit_scenes(tmp_path / 'scenes', **FEW)
    assert list(tmp_path.iterdir()) == []
    make_digit_scenes(tmp_path / 'scenes', **FEW)


def test_what_a_killed_process_left_is_removed_later(tmp_path):
    make_digit_scenes(tmp_path / 'scenes', num_train=1, num_test=1)
    fresh, old = (tmp_path / f'.scenes.{letter * 32}' for letter in 'ab')
    for folder in (fresh, old):
        (folder / 'train').mkdir(parents=True)
    long_ago = time.time() - 2 * files.ABANDONED_AFTER_SECONDS
    for path in (old / 'train', old):
        os.utime(path, (long_ago, long_ago))
    make_digit_scenes(tmp_path / 'scenes', num_train=1, num_test=1)
    assert {path.name for path in tmp_path.iterdir()} == {'scenes', fresh.name}


def test_an_empty_folder_is_filled(tmp_path):
    make_digit_scenes(tmp_path, num_train=1, num_test=1)
    assert (tmp_path / 'train' / '000001.png').is_file()


def test_a_folder_with_other_settings_is_rejected(root):
    with pytest.raises(
        FileExistsError, match=r'\(num_test is 20, not 21; seed is 7, not 8\): choose another data_root'
    ):
        make_digit_scenes(root, seed=8, num_train=30, num_test=21)
    with pytest.raises(FileExistsError, match='seed is 7, not 0'):
        DigitScenes('train', str(root), **FEW)


def test_a_folder_with_other_files_is_rejected_and_kept(tmp_path):
    (tmp_path / 'thesis.txt').write_text('mine')
    with pytest.raises(FileExistsError, match='does not hold digit scenes'):
        make_digit_scenes(tmp_path, **FEW)
    assert [path.name for path in tmp_path.iterdir()] == ['thesis.txt']


def test_a_folder_of_another_format_is_rejected(tmp_path, monkeypatch):
    make_digit_scenes(tmp_path, num_train=1, num_test=1)
    monkeypatch.setattr(files, 'FORMAT', files.FORMAT + 1)
    with pytest.raises(FileExistsError, match='format 1, not 2'):
        make_digit_scenes(tmp_path, num_train=1, num_test=1)


def test_numbers_of_numpy_and_lists_of_configs_are_settings_too():
    settings = SceneSettings(seed=np.int64(3), class_frequencies=np.full(10, 0.25), co_occurrence=[[1, 2, 0.1]])
    assert (
        settings.as_dict()
        == SceneSettings(seed=3, class_frequencies=[0.25] * 10, co_occurrence=((1, 2, 0.1),)).as_dict()
    )


@pytest.mark.parametrize(
    ('settings', 'message'),
    [
        (dict(class_frequencies=[0.5] * 9), r'class_frequencies must be 10 numbers in \(0, 1\), got \(0.5'),
        (dict(class_frequencies=[0.5] * 9 + [1.0]), 'class_frequencies must be 10 numbers'),
        (dict(class_frequencies=0.5), 'class_frequencies must be a sequence, got 0.5'),
        (dict(num_train=0), r'num_train must be an integer in \[1, 999999\], got 0'),
        (dict(num_test=2.5), 'num_test must be an integer'),
        (dict(seed=-1), 'seed must be an integer'),
        (dict(image_size=True), 'image_size must be an integer'),
        (dict(digit_size=(26, 12)), r'digit_size must be two ascending integers in \[8, 42\], got \(26, 12\)'),
        (dict(digit_size=(12, 43)), 'digit_size must be two ascending integers'),
        (dict(contrast=(0, 1)), r'contrast must be two ascending numbers in \[0.01, 1\], got \(0, 1\)'),
        (dict(background=(0, 256)), 'background must be two ascending integers'),
        (dict(max_overlap=1.5), r'max_overlap must be in \[0, 1\], got 1.5'),
        (dict(repeat_probability='often'), 'repeat_probability must be in'),
        (dict(co_occurrence=[(1, 2)]), 'co_occurrence must be triples'),
        (dict(co_occurrence=[(1, 10, 0.1)]), 'co_occurrence must be triples'),
        (dict(co_occurrence=[(1, 1, 0.1)]), 'co_occurrence must not pair a digit with itself'),
        (dict(co_occurrence=[(1, 2, 0.1), (2, 3, 0.1), (3, 1, 0.1)]), 'or form a cycle'),
        (dict(co_occurrence=[(0, 9, 0.9)]), r'co_occurrence of 0 and 9 must be in \[-0.253, 0.253\]'),
        (dict(co_occurrence=[(0, 9, float('nan'))]), 'co_occurrence of 0 and 9'),
    ],
)
def test_unfit_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        DigitScenes(lazy_init=True, **settings)


def test_an_unknown_split_or_setting_is_named():
    with pytest.raises(ValueError, match=r"split must be one of 'train', 'test', got 'val'"):
        DigitScenes('val', lazy_init=True)
    with pytest.raises(TypeError, match='num_trian'):
        DigitScenes(num_trian=3, lazy_init=True)


def test_detectors_read_a_box_for_every_digit(root):
    dataset = DigitScenes('test', data_root=str(root), seed=7, with_boxes=True, **FEW)
    boxes = defaultdict(list)
    for each in annotations(root, 'test')['annotations']:
        x, y, width, height = each['bbox']
        boxes[each['image_id']].append((each['category_id'] - 1, [x, y, x + width, y + height]))
    for item in dataset:
        assert [(each['bbox_label'], each['bbox']) for each in item['instances']] == boxes[item['img_id']]
        assert sorted({each['bbox_label'] for each in item['instances']}) == item['gt_label']
        assert not any(each['ignore_flag'] for each in item['instances'])
        assert (item['width'], item['height']) == (64, 64)
