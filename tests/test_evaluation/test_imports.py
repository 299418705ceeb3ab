import subprocess
import sys
from pathlib import Path

# A name that maps to None cannot be imported, and find_spec does not find it.
SCRIPT = """
import sys
for name in ('mmengine', 'mmcv', 'mmpretrain', 'mmdet', 'matplotlib', 'sklearn', 'PIL'):
    sys.modules[name] = None
from mmml_losses import evaluation
assert evaluation.average_precision([[0.9], [0.1]], [[1], [0]]) == [1.0]
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

    for name in ('MultiLabelAP', 'CalibrationError', 'SavePredictions'):
        assert METRICS.get(f'mmml_losses.{name}') is getattr(evaluation, name)
