import numpy as np
import pytest
import torch

from mmml_losses.evaluation import (
    Predictions,
    Query,
    parse_query,
    query,
    rank_images,
    relevant_images,
    retrieval_scores,
)

DIGITS = [str(digit) for digit in range(10)]
ANIMALS = ['cat', 'dog', 'hot dog', 'black and white', 'person']


def test_score_is_the_log_of_the_product():
    probabilities = np.random.default_rng(0).random((20, 6))
    product = probabilities[:, 1] * probabilities[:, 4] * (1 - probabilities[:, 0]) * (1 - probabilities[:, 5])
    np.testing.assert_allclose(retrieval_scores(probabilities, [1, 4], [0, 5]), np.log(product), rtol=1e-12)


def test_small_probabilities_do_not_vanish():
    tiny = np.full((2, 3), 1e-200)
    tiny[1, 0] = 1e-201
    scores = retrieval_scores(tiny, [0, 1, 2])
    assert np.isfinite(scores).all()
    assert scores[0] > scores[1]
    # 1 - 1e-20 rounds to 1, its logarithm does not.
    assert retrieval_scores([[1e-20]], [], [0]) == [-1e-20]


def test_certain_probabilities_are_certain():
    scores = retrieval_scores([[1.0, 0.0], [0.0, 0.0], [1.0, 1.0]], [0], [1])
    assert scores.tolist() == [0.0, -np.inf, -np.inf]


def test_ranking_puts_the_best_first_and_keeps_ties_in_order():
    probabilities = np.array([[0.2, 0.5], [0.9, 0.5], [0.2, 0.5], [0.9, 0.1]])
    assert rank_images(probabilities, [0], [1]).tolist() == [3, 1, 0, 2]
    assert rank_images(probabilities, *Query((0,), (1,)), top=2).tolist() == [3, 1]


def test_relevant_images_are_those_known_to_answer():
    labels = np.array([[1, 0], [1, 1], [1, -1], [-1, 0], [0, 0]])
    assert relevant_images(labels, [0], [1]).tolist() == [True, False, False, False, False]


@pytest.mark.parametrize(
    'text',
    ['3, 7, -5', '3 and 7, not 5', '3 and 7 and not 5', '3,7,-5', ' 3 , 7 , NOT 5 ', '3, and 7, - 5', '3, 3, 7, -5'],
)
def test_query_reads_both_forms(text):
    parsed = parse_query(text, DIGITS)
    assert parsed == Query((3, 7), (5,))
    assert parsed.describe(DIGITS) == '3 and 7, not 5'
    assert parse_query(parsed.describe(DIGITS), DIGITS) == parsed


def test_names_that_differ_in_case_are_distinguished():
    names = ['a', 'A', 'b']
    assert parse_query('a, -A', names) == Query((0,), (1,))
    assert parse_query('B', names) == Query((2,))
    assert query('a', [[0.1, 0.9, 0.5], [0.9, 0.1, 0.5]], names).indices.tolist() == [1, 0]


@pytest.mark.parametrize(
    ('text', 'names', 'message'),
    [
        ('AB', ['ab', 'aB'], r"query 'AB' must name one class by 'AB', got several: 0 \('ab'\) or 1 \('aB'\)"),
        ('cat, -dog', ['dog', 'cat', 'dog'], r"by 'dog', got several: 0 \('dog'\) or 2 \('dog'\)"),
    ],
)
def test_a_name_of_two_classes_is_rejected(text, names, message):
    with pytest.raises(ValueError, match=message):
        parse_query(text, names)


def test_names_may_hold_separators():
    names = ['salt, pepper', 'cat', 'rock and roll, live', 'not safe', 'and']
    assert parse_query('Salt, Pepper', names) == Query((0,))
    assert parse_query('-salt, pepper', names) == Query((), (0,))
    assert parse_query('cat, salt, pepper, not rock and roll, live', names) == Query((1, 0), (2,))
    assert parse_query('not safe and and', names) == Query((3, 4))
    conditions = Query((0, 1), (2, 3))
    assert parse_query(conditions.describe(names), names) == conditions
    with pytest.raises(ValueError, match=r"names the unknown class 'salt': did you mean .*'salt, pepper'"):
        parse_query('salt, cat', names)


def test_query_finds_names_of_several_words_in_any_case():
    assert parse_query('Hot Dog, black and white, not CAT', ANIMALS) == Query((2, 3), (0,))
    assert parse_query('-1', ['-1', '1']) == Query((0,))
    assert parse_query('not 5', DIGITS) == Query((), (5,))


@pytest.mark.parametrize(
    ('text', 'message'),
    [
        ('cat, persn', "query 'cat, persn' names the unknown class 'persn': did you mean 'person'?"),
        ('xylophone', "unknown class 'xylophone': the classes are cat, dog, hot dog, black and white, person"),
        ('', "query must name at least one class, got ''"),
        ('cat, -cat', "both asks for the class 'cat' and rules it out"),
    ],
)
def test_query_errors_help(text, message):
    with pytest.raises(ValueError, match=message.replace('?', r'\?')):
        parse_query(text, ANIMALS)


@pytest.mark.parametrize(
    ('positives', 'negatives', 'message'),
    [
        ([3], [], 'positives must be class indices from 0 to 2, got 3'),
        ([0], [-1], 'negatives must be class indices from 0 to 2, got -1'),
        ([], [], 'must name at least one class'),
        (np.array([], dtype=int), [], 'must name at least one class'),
        ([1], [1], r'must not share classes, got \[1\] in both'),
        (1, [], 'positives must be a list of class indices, got 1'),
        ([0], '1', "negatives must be a list of class indices, got '1'"),
        ([0.0], [], r'positives must be a list of class indices, got \[0.0\]'),
        (np.array([0.5]), [], 'positives must be a list of class indices, got array'),
        (np.array([[0, 1]]), [], 'positives must be a list of class indices, got array'),
        (np.array(1), [], 'positives must be a list of class indices, got array'),
        (['cat'], [], r"positives must be a list of class indices, got \['cat'\]"),
        ([True, False, True], [], 'positives must be a list of class indices, got'),
        (torch.tensor([True, False]), [], 'positives must be a list of class indices, got'),
    ],
)
@pytest.mark.parametrize('function', [retrieval_scores, rank_images, relevant_images])
def test_bad_conditions_are_rejected(function, positives, negatives, message):
    with pytest.raises(ValueError, match=message):
        function(np.ones((2, 3)), positives, negatives)


@pytest.mark.parametrize('make', [np.array, torch.tensor, set, tuple])
def test_conditions_come_in_any_collection(make):
    probabilities, labels = np.random.default_rng(0).random((9, 4)), np.eye(9, 4)
    positives, negatives = make([0, 2]), make([3])
    expected = retrieval_scores(probabilities, [0, 2], [3])
    np.testing.assert_array_equal(retrieval_scores(probabilities, positives, negatives), expected)
    assert rank_images(probabilities, positives, negatives).tolist() == np.argsort(-expected).tolist()
    assert relevant_images(labels, make([0]), make([])).tolist() == [True] + 8 * [False]


def test_log_odds_score_like_their_probabilities_and_finer():
    logits = np.random.default_rng(0).normal(0, 4, (30, 4))
    probabilities = 1 / (1 + np.exp(-logits))
    expected = retrieval_scores(probabilities, [0, 2], [1])
    np.testing.assert_allclose(retrieval_scores(logits, [0, 2], [1], scale='logit'), expected, rtol=1e-12)
    assert retrieval_scores([[100.0], [-np.inf], [np.inf]], [0], scale='logit').tolist() == [-np.exp(-100), -np.inf, 0]
    assert retrieval_scores([[100.0]], [], [0], scale='logit').tolist() == [-100.0]


def test_query_in_words_finds_images_by_name():
    probabilities = np.array([[0.9, 0.9, 0.8], [0.8, 0.7, 0.1], [0.9, 0.1, 0.1], [0.8, 0.7, 0.1]])
    found = query('cat, dog, -person', probabilities, ['cat', 'dog', 'person'])
    assert found.query == Query((0, 1), (2,))
    assert found.indices.tolist() == [1, 3, 0, 2]
    np.testing.assert_array_equal(found.scores, retrieval_scores(probabilities, [0, 1], [2])[found.indices])
    assert found.image_paths == ()
    assert query('cat, -dog', probabilities, ['cat', 'dog', 'person'], top=1).indices.tolist() == [2]
    assert query('0, -1', np.log(probabilities / (1 - probabilities)), scale='logit').indices.tolist()[0] == 2


def test_query_of_predictions_knows_names_and_paths():
    predictions = Predictions(
        scores=np.array([[0.2, 0.5], [0.9, 0.5]]),
        labels=np.zeros((2, 2)),
        class_names=('cat', 'dog'),
        image_paths=('a.jpg', 'b.jpg'),
    )
    assert query('cat', predictions).image_paths == ('b.jpg', 'a.jpg')
    assert query('hound', predictions, ['cat', 'hound']).indices.tolist() == [0, 1]


def test_bad_searches_are_rejected():
    with pytest.raises(ValueError, match='class_names must have 2 entries, got 1'):
        query('cat', [[0.1, 0.2]], ['cat'])
    with pytest.raises(ValueError, match="names the unknown class 'dgo': did you mean 'dog'"):
        query('dgo', [[0.1, 0.2]], ['cat', 'dog'])
    with pytest.raises(ValueError, match='top must be at least 1, got 0'):
        query('cat', [[0.1, 0.2]], ['cat', 'dog'], top=0)
    with pytest.raises(ValueError, match=r'top must be a whole number, got 1\.5'):
        query('cat', [[0.1, 0.2]], ['cat', 'dog'], top=1.5)
    with pytest.raises(ValueError, match="scale must be 'probability' or 'logit', got 'odds'"):
        query('cat', [[0.1, 0.2]], ['cat', 'dog'], scale='odds')
    with pytest.raises(ValueError, match=r'probabilities must lie in \[0, 1\], got 7'):
        query('cat', [[0.1, 7.0]], ['cat', 'dog'])
