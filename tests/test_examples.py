"""Run the examples of the package's docstrings, and compare their results where an example shows one."""

import doctest
import json
from importlib import import_module
from importlib.util import find_spec
from pkgutil import walk_packages

import numpy as np
import pytest

import mmml_losses
from mmml_losses import datasets, losses, models

# Examples on files of a download or a training. They run until the missing file, which at least checks their arguments.
NEED_FILES = {
    *('CocoMultiLabel', 'CUBAttributes', 'ImageNetMultiLabel', 'LongTailed', 'MultiLabelInferencer', 'NUSWIDE'),
    *('Relabelled', 'VAW', 'VISPR', 'VOC', 'VQASoftAnswers', 'WIDERAttribute'),
}


class ShownResults(doctest.OutputChecker):
    """Accept any result where the example shows none: ``>>> PairLoss(negative='hill')`` need not print the loss."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        return not want or super().check_output(want, got, optionflags)


def find_examples() -> list[doctest.DocTest]:
    """Find the docstrings with examples. They may use every public dataset, loss and model, and ``np``."""
    names = {'np': np}
    for room in (datasets, losses, models):
        names |= {name: getattr(room, name) for name in room.__all__}
    paths = [found.name for found in walk_packages(mmml_losses.__path__, 'mmml_losses.')]
    without_mmdet = find_spec('mmdet') is None
    modules = [import_module(path) for path in paths if not (without_mmdet and '.models.detection' in path)]
    finder = doctest.DocTestFinder()
    return [found for module in modules for found in finder.find(module, globs=names | vars(module)) if found.examples]


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    """Make a folder with the files that the examples name."""
    folder = tmp_path_factory.mktemp('examples')
    (folder / 'counts.json').write_text(json.dumps(dict(class_frequencies=[5, 2, 1], num_samples=6)))
    labels = np.eye(4, 3, dtype=np.int8)
    np.savez(
        folder / 'features.npz',
        train_features=np.zeros((4, 1280), np.float32),
        train_labels=labels,
        train_full=labels,
        train_40=np.where(labels == 1, 1, -1).astype(np.int8),
        classes=np.array(['cat', 'dog', 'owl']),
    )
    return folder


@pytest.mark.parametrize('example', find_examples(), ids=lambda example: example.name.removeprefix('mmml_losses.'))
def test_example(example, folder, monkeypatch):
    monkeypatch.chdir(folder)
    if example.name.rpartition('.')[2] in NEED_FILES:
        with pytest.raises(doctest.UnexpectedException) as stopped:
            doctest.DebugRunner().run(example)
        assert isinstance(stopped.value.exc_info[1], FileNotFoundError)
    else:
        report: list[str] = []
        found = doctest.DocTestRunner(ShownResults(), verbose=False).run(example, out=report.append)
        assert found.failed == 0, ''.join(report)
