import numpy as np
import pytest

from mmml_losses.evaluation import Query, parse_query, rank_images, relevant_images, retrieval_scores

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
    query = parse_query(text, DIGITS)
    assert query == Query((3, 7), (5,))
    assert query.describe(DIGITS) == '3 and 7, not 5'
    assert parse_query(query.describe(DIGITS), DIGITS) == query


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
        ([1], [1], r'must not share classes, got \[1\] in both'),
    ],
)
def test_bad_conditions_are_refused(positives, negatives, message):
    with pytest.raises(ValueError, match=message):
        retrieval_scores(np.full((2, 3), 0.5), positives, negatives)
