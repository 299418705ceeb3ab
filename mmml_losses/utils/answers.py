"""Answers of VQA v2: their common spelling, and how far an answer agrees with the ten people."""

import re
from functools import lru_cache

NUM_PEOPLE = 10  # who answered each question
SCORE_RULES = ('leave_one_out', 'thirds', 'any')


def answer_score(count: int, rule: str = 'leave_one_out') -> float:
    """Return the score, 0 to 1, of an answer of ``count`` of ten people; ``rule`` is as in ``VQASoftAnswers``."""
    if rule == 'any':
        return 1.0
    if rule == 'thirds':
        return min(1.0, count / 3)
    # Of the choices of nine people, ``count`` leave out one of those who gave it, and the others none.
    without, within = min(3, count - 1), min(3, count)
    return (count * without + (NUM_PEOPLE - count) * within) / (3 * NUM_PEOPLE)


ARTICLES = ('a', 'an', 'the')
NUMBERS = {
    word: str(number)
    for number, word in enumerate(
        ('zero', 'one', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight', 'nine', 'ten')
    )
} | dict(none='0')
PUNCTUATION = ';/[]"{}()=+\\_-><@`,?!'
# Contractions that are not an ordinary word without the apostrophe.
CONTRACTIONS = (
    "ain't aren't can't couldn't didn't doesn't don't hadn't hasn't haven't he's i'm isn't it'll shouldn't that's "
    "there's they're wasn't weren't what's where's who's won't wouldn't you're"
)
WITH_APOSTROPHE = {word.replace("'", ''): word for word in CONTRACTIONS.split()}


@lru_cache(maxsize=2**16)  # millions of answers are mostly the same few
def normalize_answer(answer: str) -> str:
    """Normalize an answer as the official evaluation does before it compares answers.

    Letters become lower case, articles are removed, number words up to ten become digits, and ``none`` becomes 0.
    Common contractions get their apostrophe (``dont`` becomes ``don't``); the official list is longer. All marks of a
    kind, such as commas or hyphens, are removed if one is next to a space, or if the answer has a number such as 1,000.
    Otherwise they become spaces. Apostrophes and colons stay. Full stops are removed unless a digit follows.
    """
    answer = ' '.join(answer.split())
    has_long_number = re.search(r'\d,\d', answer) is not None
    text = answer
    for mark in set(PUNCTUATION).intersection(answer):
        goes = has_long_number or f'{mark} ' in answer or f' {mark}' in answer
        text = text.replace(mark, '' if goes else ' ')
    text = re.sub(r'\.(?!\d)', '', text)
    words = (NUMBERS.get(word, word) for word in text.lower().split() if word not in ARTICLES)
    return ' '.join(WITH_APOSTROPHE.get(word, word) for word in words)
