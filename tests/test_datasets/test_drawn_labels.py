"""What label wrappers draw, written to a file and read again."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from mmengine.dataset import BaseDataset, ClassBalancedDataset, ConcatDataset, RepeatDataset

from mmml_losses.datasets import AnnotationError, LongTailed, MissingLabels, PartialLabels, Relabelled, SinglePositive
from mmml_losses.datasets.labels.label_file import load_label_file, save_label_file
from mmml_losses.datasets.labels.nesting import source_datasets, unrepeated
from mmml_losses.datasets.labels.reading import read_labels
from mmml_losses.datasets.wrappers.drawn_labels import read_drawn_labels

ROOT = Path(__file__).resolve().parents[2]
NUM_CLASSES = 6


class Scenes(BaseDataset):
    """Samples without pixels that have one class to six, the first ones most often, and unknown labels if asked."""

    METAINFO = dict(classes=tuple('abcdef'))

    def __init__(self, folder='images', count=60, unknown=False, **kwargs):
        self.folder, self.count, self.unknown = folder, count, unknown
        super().__init__(data_prefix=dict(img_path=folder), serialize_data=False, **kwargs)

    def get_cat_ids(self, idx):
        return self.get_data_info(idx)['gt_label']

    def load_data_list(self):
        rng = np.random.RandomState(sum(map(ord, self.folder)))
        infos = []
        for number in range(self.count):
            labels = np.flatnonzero(rng.rand(NUM_CLASSES) < [0.8, 0.6, 0.5, 0.4, 0.3, 0.2])
            info = dict(img_path=f'{self.folder}/{number}.jpg', gt_label=labels.tolist())
            info['label_areas'] = rng.rand(len(labels)).tolist()
            if self.unknown:
                info['gt_score'] = np.where(np.isin(range(NUM_CLASSES), labels), 1.0, -rng.randint(2, size=NUM_CLASSES))
            infos.append(info)
        return infos


def few(dataset, **kwargs):
    return LongTailed(dataset, **{'largest': 20, 'smallest': 3, **kwargs})


# The dataset that draws, and the one that the file is for.
NESTINGS = dict(
    missing=(lambda: MissingLabels(Scenes(), 0.5), Scenes),
    bernoulli=(lambda: MissingLabels(Scenes(), dict(a=0.5, c=0.2), 'bernoulli', seed=4), Scenes),
    smallest=(lambda: MissingLabels(Scenes(), 0.8, order='smallest_first', hidden='unknown'), Scenes),
    single=(lambda: SinglePositive(Scenes()), Scenes),
    single_by_area=(lambda: SinglePositive(Scenes(), by='area', seed=2), Scenes),
    partial=(lambda: PartialLabels(Scenes(), 0.3), Scenes),
    mostly_known=(lambda: PartialLabels(Scenes(), 0.9), Scenes),
    long_tailed=(lambda: few(Scenes()), Scenes),
    unknown_before=(lambda: MissingLabels(Scenes(unknown=True), 0.8), lambda: Scenes(unknown=True)),
    missing_of_long_tailed=(lambda: MissingLabels(few(Scenes()), 0.8), Scenes),
    long_tailed_of_missing=(lambda: few(MissingLabels(Scenes(), 0.3)), Scenes),
    three=(lambda: PartialLabels(SinglePositive(few(Scenes())), 0.7), Scenes),
    long_tailed_twice=(lambda: few(few(Scenes()), largest=8, smallest=1), Scenes),
    subset=(lambda: SinglePositive(Scenes()).get_subset([7, 3, 30]), Scenes),
    around_joined=(
        lambda: MissingLabels(ConcatDataset([Scenes(), Scenes('others', 20)]), 0.5),
        lambda: ConcatDataset([Scenes(), Scenes('others', 20)]),
    ),
    inside_joined=(
        lambda: ConcatDataset([few(Scenes()), Scenes('others', 20), SinglePositive(Scenes('more', 10))]),
        lambda: ConcatDataset([Scenes(), Scenes('others', 20), Scenes('more', 10)]),
    ),
    around_and_inside_joined=(
        lambda: SinglePositive(ConcatDataset([few(Scenes()), few(Scenes('others', 30))])),
        lambda: ConcatDataset([Scenes(), Scenes('others', 30)]),
    ),
    around_repeated=(lambda: few(RepeatDataset(Scenes(), times=2)), lambda: RepeatDataset(Scenes(), times=2)),
    around_balanced=(
        lambda: SinglePositive(ClassBalancedDataset(Scenes(), oversample_thr=0.5)),
        lambda: ClassBalancedDataset(Scenes(), oversample_thr=0.5),
    ),
    repeated_between=(lambda: MissingLabels(RepeatDataset(few(Scenes()), times=3), 0.8), Scenes),
    balanced_between=(
        lambda: SinglePositive(ClassBalancedDataset(MissingLabels(Scenes(), 0.3), oversample_thr=0.5)),
        Scenes,
    ),
)


def write(folder, dataset, name='labels.json'):
    drawn = read_drawn_labels(dataset)
    save_label_file(folder / name, drawn.labels, drawn.source, dict(dataset=drawn.settings), drawn.positions)
    return str(folder / name)


def infos(dataset, keys=('img_path', 'gt_label', 'true_label', 'sample_idx')):
    """Return what files determine in the data infos, in a form that can be compared."""
    data_infos = map(dataset.get_data_info, range(len(dataset)))
    return [{key: np.asarray(info[key]).tolist() for key in keys} for info in data_infos]


@pytest.mark.parametrize('name', NESTINGS)
def test_a_file_has_the_labels_of_the_wrappers(tmp_path, name):
    draw, source = NESTINGS[name]
    drawing = draw()
    stored = Relabelled(source(), write(tmp_path, drawing))
    assert np.array_equal(stored.observed_labels(), read_labels(drawing).labels)
    # The parts of a concatenation number their samples from 0, and those without a wrapper have one label alone.
    keys = ('img_path', 'gt_label') if name == 'inside_joined' else ('img_path', 'gt_label', 'true_label', 'sample_idx')
    assert infos(stored, keys) == infos(drawing, keys)
    for idx in range(len(drawing)):
        scores = [dataset.get_data_info(idx).get('gt_score') for dataset in (drawing, stored)]
        assert (scores[0] is None) == (scores[1] is None)
        assert np.array_equal(*scores)
    assert json.loads((tmp_path / 'labels.json').read_text())['made_by']['dataset'] == drawing_settings(drawing)


def drawing_settings(dataset):
    """Collect the settings of each wrapper, layer by layer."""
    if hasattr(dataset, 'datasets'):
        return dict(type='ConcatDataset', datasets=[drawing_settings(part) for part in dataset.datasets])
    if not hasattr(dataset, 'dataset'):
        return dict(type='Scenes')
    own = dataset.settings() if hasattr(dataset, 'settings') else dict(type=type(dataset).__name__)
    return own | dict(dataset=drawing_settings(dataset.dataset))


def test_the_cases_draw_something(tmp_path):
    """None of the round trips above is one of labels or samples as they were."""
    for draw, _ in NESTINGS.values():
        drawn = read_drawn_labels(draw())
        if drawn.positions is None:
            assert not np.array_equal(drawn.labels, drawn.source.labels)
        else:
            assert 0 < len(drawn.labels) != len(drawn.source.labels)
            assert (drawn.labels[drawn.source.labels[drawn.positions] == 0] <= 0).all()


def test_repetition_around_all_label_wrappers_is_left_to_the_config():
    inner = SinglePositive(Scenes())
    assert unrepeated(ClassBalancedDataset(inner, oversample_thr=0.5)) is inner
    assert unrepeated(RepeatDataset(inner, times=2)) is inner
    joined = ConcatDataset([inner, Scenes('others')])
    assert unrepeated(joined) is joined
    assert [len(source) for source in source_datasets(joined)] == [60, 60]


def test_a_dataset_that_draws_nothing_is_named():
    for dataset in (Scenes(), RepeatDataset(Scenes(), times=2)):
        with pytest.raises(ValueError, match=rf'must have a label wrapper, got {type(dataset).__name__} without one'):
            read_drawn_labels(dataset)


def test_a_file_is_for_what_lies_inside_all_label_wrappers(tmp_path):
    file = write(tmp_path, SinglePositive(MissingLabels(Scenes(), 0.5)))
    with pytest.raises(AnnotationError, match='made from other labels of the same images'):
        Relabelled(MissingLabels(Scenes(), 0.5), file)
    for dataset, difference in (
        (Scenes(indices=list(range(59, -1, -1))), 'the same images in another order'),
        (Scenes('others'), 'other labels of the same images'),
        (Scenes(count=61), 'made for 60 samples, the dataset has 61'),
        (Scenes(metainfo=dict(classes=tuple('abcdeg'))), "class 5 is 'f' in the file and 'g' in the dataset"),
    ):
        with pytest.raises(AnnotationError, match=rf'labels\.json does not fit the dataset: .*{difference}'):
            Relabelled(dataset, file)


def test_a_file_within_a_nesting_is_one_of_its_settings(tmp_path):
    first = write(tmp_path, MissingLabels(Scenes(), 0.3), 'first.json')
    stacked = SinglePositive(Relabelled(Scenes(), first))
    second = write(tmp_path, stacked, 'second.json')
    assert infos(Relabelled(Scenes(), second)) == infos(stacked)
    settings = load_label_file(second).made_by['dataset']
    assert settings['dataset']['labels'] == 'first.json'
    assert len(settings['dataset']['sha256']) == 64


def test_another_process_writes_the_same_bytes(tmp_path):
    """Whatever its hash seed, and whatever it did before."""
    script = (
        'import random, sys, numpy, pathlib\n'
        'from tests.test_datasets.test_drawn_labels import NESTINGS, write\n'
        'random.seed(7); numpy.random.seed(7)\n'
        'for name in reversed(NESTINGS):\n'
        '    write(pathlib.Path(sys.argv[1]), NESTINGS[name][0](), f"{name}.json")\n'
    )
    environment = {**os.environ, 'PYTHONHASHSEED': '7', 'PYTHONPATH': str(ROOT), 'OMP_NUM_THREADS': '1'}
    command = [sys.executable, '-W', 'ignore', '-c', script, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    for name, (draw, _) in NESTINGS.items():
        here = Path(write(tmp_path, draw(), 'here.json')).read_bytes()
        assert here == (tmp_path / f'{name}.json').read_bytes()
