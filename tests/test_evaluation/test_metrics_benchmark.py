"""The benchmark of the metrics runs, and its implementations agree."""

import json

import pytest

from benchmarks import metrics as benchmark


def test_the_script_prints_a_table_for_each_section_and_size(capsys):
    benchmark.main(['--only', 'class', 'sample', 'micro', 'f1', '--sizes', '60x8', '90x5', '--rounds', '1'])
    printed = capsys.readouterr().out
    for title, _ in benchmark.COMPARISONS.values():
        assert f'{title}, 60x8' in printed
        assert f'{title}, 90x5' in printed
    assert 'scikit-learn' in printed.splitlines()[0]


@pytest.mark.parametrize('section', benchmark.COMPARISONS)
def test_what_is_compared_has_one_value(section):
    _, measures = benchmark.COMPARISONS[section]
    others = {'numpy.sort', 'mmml_losses, best thresholds'}
    values = {name: measure() for name, measure in measures(*benchmark.make_case(300, 10)).items()}
    assert len(values) > 2
    ours = values['mmml_losses']
    assert {name: value for name, value in values.items() if name not in others} == pytest.approx(
        dict.fromkeys(values.keys() - others, ours), rel=1e-5
    )


def test_memory_is_measured_with_the_data_in_it(capsys):
    benchmark.main(['--measure-large', '2000x300'])
    measured = json.loads(capsys.readouterr().out)
    assert measured['data'] == 2000 * 300 * 5
    assert measured['data'] < measured['before'] <= measured['peak']
    assert 0 < measured['value'] < 1
