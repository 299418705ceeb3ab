from dataclasses import replace

import numpy as np
import pytest

from mmml_losses.evaluation import Predictions, load_predictions, save_predictions


def some_predictions():
    return Predictions(
        scores=np.random.default_rng(0).random((3, 2), dtype=np.float32),
        labels=np.array([[1, 0], [0, -1], [1, 1]]),
        class_names=('cat', 'Hund größer'),
        image_paths=('a.jpg', 'Ordner/größer.jpg', ''),
        sample_idx=np.array([4, 2, 9]),
    )


def test_file_returns_what_was_saved(tmp_path):
    saved = some_predictions()
    path = tmp_path / 'new folder' / 'predictions.npz'
    save_predictions(path, saved)
    loaded = load_predictions(path)
    for name in ('scores', 'labels', 'sample_idx'):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(saved, name))
        assert getattr(loaded, name).dtype == getattr(saved, name).dtype
    assert (loaded.class_names, loaded.image_paths) == (saved.class_names, saved.image_paths)


def test_true_labels_are_optional_and_old_files_load(tmp_path):
    path = tmp_path / 'predictions.npz'
    without = some_predictions()
    save_predictions(path, without)
    with np.load(path) as arrays:
        assert 'true_labels' not in arrays.files  # a file as it always was
    assert load_predictions(path).true_labels is None
    true = np.array([[1, 1], [0, 1], [1, 1]])
    save_predictions(path, replace(without, true_labels=true))
    loaded = load_predictions(path)
    np.testing.assert_array_equal(loaded.true_labels, true)
    assert loaded.true_labels.dtype == np.int8
    np.testing.assert_array_equal(loaded.labels, without.labels)


def test_file_holds_no_pickle_and_leaves_no_other_file(tmp_path):
    path = tmp_path / 'predictions.npz'
    save_predictions(path, some_predictions())
    with np.load(path, allow_pickle=False) as arrays:
        assert all(arrays[name].dtype != object for name in arrays.files)
    assert list(tmp_path.iterdir()) == [path]


def test_failed_write_keeps_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / 'predictions.npz'
    save_predictions(path, some_predictions())
    before = path.read_bytes()

    def fail(file, **arrays):
        file.write(b'half a file')
        raise OSError('no space left on device')

    monkeypatch.setattr(np, 'savez', fail)
    with pytest.raises(OSError, match='no space left'):
        save_predictions(path, some_predictions())
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_names_default_to_indices():
    predictions = Predictions(np.zeros((2, 3)), np.zeros((2, 3)))
    assert predictions.class_names == ('0', '1', '2')
    assert predictions.image_paths == ('', '')
    assert predictions.sample_idx.tolist() == [0, 1]
    assert (predictions.num_samples, predictions.num_classes) == (2, 3)


def test_wrong_files_are_rejected_by_name(tmp_path):
    text = tmp_path / 'text.npz'
    text.write_text('not an archive')
    single = tmp_path / 'single.npz'
    with single.open('wb') as file:
        np.save(file, np.zeros(3))
    other = tmp_path / 'other.npz'
    np.savez(other, features=np.zeros(3))
    pickled = tmp_path / 'pickled.npz'
    np.savez(pickled, format=np.array([{}], dtype=object))
    for path in (text, single, other, pickled):
        with pytest.raises(ValueError, match=f'{path.name}. is not a predictions file written by SavePredictions'):
            load_predictions(path)
    with pytest.raises(FileNotFoundError):
        load_predictions(tmp_path / 'missing.npz')


def test_wrong_lengths_and_endings_are_rejected(tmp_path):
    with pytest.raises(ValueError, match=r'class_names must have 3 entries for scores of shape \(2, 3\), got 1'):
        Predictions(np.zeros((2, 3)), np.zeros((2, 3)), class_names=('cat',))
    with pytest.raises(ValueError, match=r'true_labels must have the shape of scores \(2, 3\), got \(3, 2\)'):
        Predictions(np.zeros((2, 3)), np.zeros((2, 3)), true_labels=np.zeros((3, 2)))
    with pytest.raises(
        ValueError, match=r'true_labels must be 1 \(positive\), 0 \(negative\) or -1 \(unknown\), got 2'
    ):
        Predictions(np.zeros((2, 3)), np.zeros((2, 3)), true_labels=np.full((2, 3), 2))
    with pytest.raises(ValueError, match=r"path must end with '.npz', got '.*predictions.pkl'"):
        save_predictions(tmp_path / 'predictions.pkl', some_predictions())
