import subprocess
import sys
from pathlib import Path

# A name that maps to None cannot be imported, and find_spec does not find it.
SCRIPT = """
import sys
for name in ('mmengine', 'mmcv', 'mmpretrain', 'mmdet', 'matplotlib', 'numba', 'scipy', 'sklearn', 'tqdm', 'PIL'):
    sys.modules[name] = None
from mmml_losses import evaluation
assert evaluation.average_precision([[0.9], [0.1]], [[1], [0]]) == [1.0]
assert evaluation.query_retrieval([[0.9, 0.2], [0.1, 0.3]], [[1, 0], [0, 1]]).overall.value == 1.0
assert evaluation.calibration_line([[0.9], [0.6], [0.7], [0.2]], [[1], [0], [1], [0]]).status == 'separable'
assert 'MultiLabelAP' not in evaluation.__all__
assert all(hasattr(evaluation, name) for name in evaluation.__all__)
"""


def test_functions_need_torch_and_numpy_alone():
    root = Path(__file__).parents[2]
    result = subprocess.run([sys.executable, '-c', SCRIPT], cwd=root, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_metrics_are_there_with_mmengine():
    from mmml_losses import evaluation
    from mmml_losses.registry import METRICS

    names = {
        'CalibrationError',
        'DetectionCalibrationError',
        'MissingLabelRecovery',
        'MultiLabelAP',
        'MultiLabelF1',
        'QueryRetrieval',
        'SavePredictions',
        'VQAAccuracy',
    }
    assert names <= set(evaluation.__all__)
    for name in names:
        assert METRICS.get(f'mmml_losses.{name}') is getattr(evaluation, name)
