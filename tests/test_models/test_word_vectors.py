"""Vectors for class names: which word is used, and the error if there is none."""

import numpy as np
import pytest
import torch

from mmml_losses.datasets import AnnotationError
from mmml_losses.models.word_vectors import load_word_vectors, width_of_words

WORDS = {
    'dog': [1, 2, 3],
    'hot': [0, 4, 2],
    'hot-dog': [9, 9, 9],
    'traffic': [2, 0, 2],
    'light': [4, 2, 0],
    'Mars': [7, 7, 7],
    'mars': [5, 5, 5],
}


@pytest.fixture
def text_file(tmp_path):
    file = tmp_path / 'glove.txt'
    lines = [f'{word} {" ".join(map(str, vector))}' for word, vector in WORDS.items()]
    file.write_text('\n'.join([*lines, 'dog 8 8 8', 'naïve 1 1 1']) + '\n', encoding='utf-8')
    return file


@pytest.fixture(params=['text', 'npz'])
def words_file(request, text_file, tmp_path):
    if request.param == 'text':
        return text_file
    np.savez(tmp_path / 'words.npz', words=list(WORDS), vectors=np.array(list(WORDS.values()), dtype=np.float32))
    return tmp_path / 'words.npz'


@pytest.mark.parametrize(
    ('name', 'expected'),
    [
        ('dog', WORDS['dog']),
        ('Dog', WORDS['dog']),
        ('traffic light', [3, 1, 1]),
        ('Traffic_Light', [3, 1, 1]),
        ('hot-dog', [9, 9, 9]),
        ('hot dog', [0.5, 3, 2.5]),
        ('Mars', [7, 7, 7]),
        ('mars', [5, 5, 5]),
    ],
)
def test_names_are_found_whole_or_by_their_words(words_file, name, expected):
    assert load_word_vectors(words_file, 1, [name]).tolist() == [expected]


def test_names_of_voc_are_parted_into_words(tmp_path):
    file = tmp_path / 'glove.txt'
    file.write_text('tv 1 0\nmonitor 0 1\npotted 2 2\nplant 4 0\ndining 0 0\ntable 0 2\nsofa 7 7\n')
    names = ['tvmonitor', 'pottedplant', 'diningtable', 'sofa']
    assert load_word_vectors(file, 4, names).tolist() == [[0.5, 0.5], [3, 1], [0, 1], [7, 7]]
    file.write_text('tvmonitor 9 9\n')
    assert load_word_vectors(file, 1, ['tvmonitor']).tolist() == [[9, 9]]


def test_the_width_is_known_before_the_names(words_file, tmp_path):
    assert width_of_words(words_file) == 3
    (tmp_path / 'vectors.vec').write_text('2 5\ndog 1 2 3 4 5\n')
    assert width_of_words(tmp_path / 'vectors.vec') == 5
    np.save(tmp_path / 'classes.npy', np.ones((2, 3)))
    assert width_of_words(tmp_path / 'classes.npy') is None


def test_vectors_are_in_the_order_of_the_classes(words_file):
    vectors = load_word_vectors(words_file, 2, ['traffic light', 'dog'])
    assert vectors.dtype == torch.float32
    assert vectors.tolist() == [[3, 1, 1], WORDS['dog']]


def test_names_come_from_a_file_as_well(words_file, tmp_path):
    (tmp_path / 'names.txt').write_text('traffic light\n\ndog\n')
    assert load_word_vectors(words_file, 2, tmp_path / 'names.txt').tolist() == [[3, 1, 1], WORDS['dog']]


def test_every_name_without_a_vector_is_named(words_file):
    names = ['hot potato', 'dog', 'sofa', '?']
    message = "got none for 'potato' of class 'hot potato', 'sofa' of class 'sofa', '\\?' of class '\\?' in .*: give"
    with pytest.raises(ValueError, match=message):
        load_word_vectors(words_file, 4, names)


def test_the_header_of_word2vec_is_no_word(tmp_path):
    file = tmp_path / 'vectors.vec'
    file.write_text('2 3\n2 1 1 1\ndog 1 2 3\n')
    assert load_word_vectors(file, 2, ['2', 'dog']).tolist() == [[1, 1, 1], [1, 2, 3]]


@pytest.mark.parametrize('kind', ['npy', 'npz'])
def test_arrays_have_a_row_for_each_class(tmp_path, kind):
    file, rows = tmp_path / f'vectors.{kind}', np.arange(6).reshape(2, 3)
    if kind == 'npy':
        np.save(file, rows)
    else:
        np.savez(file, vectors=rows)
    assert load_word_vectors(str(file), 2).tolist() == rows.tolist()
    with pytest.raises(ValueError, match=r'word_vectors must be numbers of shape \(3, D\).* of shape \(2, 3\)'):
        load_word_vectors(file, 3)


def test_pickles_are_not_read(tmp_path):
    np.save(tmp_path / 'objects.npy', np.array([{}, {}]), allow_pickle=True)
    np.savez(tmp_path / 'objects.npz', vectors=np.array([{}, {}]))
    with pytest.raises(ValueError, match='word_vectors must be an array that reads without pickle'):
        load_word_vectors(tmp_path / 'objects.npy', 2)
    with pytest.raises(AnnotationError, match='Python objects'):
        load_word_vectors(tmp_path / 'objects.npz', 2)


@pytest.mark.parametrize(
    ('lines', 'message'),
    [
        ('dog 1 2 x', r"a word and its numbers in each line, got 'dog 1 2 x' in line 1"),
        ('dog 1 2 3\ncat 1 2', r"equally many numbers for each word, got {'dog': 3, 'cat': 2}"),
        ('dog\ncat', r"equally many numbers for each word, got {'dog': 0, 'cat': 0}"),
        ('dog 1 nan\ncat 1 2', 'word_vectors must be finite'),
    ],
)
def test_broken_lines_are_rejected(tmp_path, lines, message):
    (tmp_path / 'glove.txt').write_text(lines)
    with pytest.raises(ValueError, match=message):
        load_word_vectors(tmp_path / 'glove.txt', 2, ['dog', 'cat'])


@pytest.mark.parametrize(
    ('names', 'message'),
    [
        (None, 'class_names must be given to find words in .*, got None'),
        (['dog'], 'class_names must be one for each of the 2 classes, got 1'),
        ('nowhere.txt', "class_names must be names or a readable file, got 'nowhere.txt'"),
    ],
)
def test_words_need_names(words_file, names, message):
    with pytest.raises(ValueError, match=message):
        load_word_vectors(words_file, 2, names)


def test_a_missing_file_is_named():
    with pytest.raises(ValueError, match=r"word_vectors must be a file, got 'glove\.txt', which does not exist"):
        load_word_vectors('glove.txt', 2, ['dog', 'cat'])


def test_words_and_vectors_must_go_together(tmp_path):
    np.savez(tmp_path / 'words.npz', words=['dog'], vectors=np.ones((2, 3)))
    with pytest.raises(ValueError, match=r'a row of vectors for each of words, got the shapes \(2, 3\) and \(1,\)'):
        load_word_vectors(tmp_path / 'words.npz', 1, ['dog'])
