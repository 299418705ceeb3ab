"""Answers to questions on images: how they are compared, and which of them are classes."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache

from ...utils.arrays import check_whole_number
from ...utils.files import replacing
from ..errors import AnnotationError, MissingDataError
from ..labels.label_file import checked_json_path
from .annotation_files import read_json, refuse_repeated

IDS = ('question_id', 'image_id')
ARTICLES = ('a', 'an', 'the')
NUMBERS = {
    word: str(number)
    for number, word in enumerate(
        ('zero', 'one', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight', 'nine', 'ten')
    )
} | dict(none='0')
PUNCTUATION = ';/[]"{}()=+\\_-><@`,?!'
# Those that are hardly ever another word without the apostrophe.
CONTRACTIONS = (
    "ain't aren't can't couldn't didn't doesn't don't hadn't hasn't haven't he's i'm isn't it'll shouldn't that's "
    "there's they're wasn't weren't what's where's who's won't wouldn't you're"
)
WITH_APOSTROPHE = {word.replace("'", ''): word for word in CONTRACTIONS.split()}


@lru_cache(maxsize=2**16)  # millions of answers are mostly the same few
def normalize_answer(answer: str) -> str:
    """An answer in the form in which two of them are compared, after the rules of the official evaluation.

    Letters become small, articles go, number words up to ten and ``none`` become digits, and ``dont`` becomes
    ``don't``; the evaluation's list of such contractions is longer. All punctuation marks of a kind go if one of them
    stands beside a space, or if the answer has a number such as 1,000; else they become spaces. Full stops go unless a
    digit follows.
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


def make_answer_file(path: str | os.PathLike, ann_files: Sequence[str | os.PathLike], min_count: int = 9) -> list[str]:
    """Choose the answers that are classes, and write them as a json list. A file of that name is replaced.

    An answer counts once for each question whose ``multiple_choice_answer`` it is, the one that most of the ten people
    gave. From the training and validation annotations of VQA v2 together, at least 9 leave about 3,100 answers (the
    3,129 of most published models); these are the classes for training and for every evaluation.

    Args:
        path: Where to write; must end with ``.json``.
        ann_files: Annotation files of VQA v2.
        min_count: Fewest questions of an answer.

    Returns:
        The answers, the most frequent first, those of one count in alphabetical order.
    """
    path = checked_json_path(path)
    check_whole_number('min_count', min_count, least=1)
    missing = [os.fspath(file) for file in ann_files if not os.path.isfile(file)]
    if missing or not ann_files:
        raise MissingDataError(
            f'ann_files must be files of annotations, missing: {", ".join(missing) or "all"}', missing
        )
    counts = Counter(answer for file in ann_files for answer in _chosen_answers(file))
    counts.pop('', None)
    answers = sorted(
        (answer for answer in counts if counts[answer] >= min_count), key=lambda name: (-counts[name], name)
    )
    if not answers:
        raise ValueError(f'min_count must leave some of the {len(counts)} answers, got {min_count}')
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(answers, ensure_ascii=False, indent=0) + '\n', encoding='utf-8')
    return answers


def read_answer_file(path: str | os.PathLike) -> list[str]:
    """The answers that are classes, in the order of their indices.

    Raises:
        AnnotationError: The file does not hold a list of different answers.
    """
    answers = read_json(path, list)
    if not answers or not all(isinstance(answer, str) and answer for answer in answers):
        raise AnnotationError(f'{path} must hold a list of answers')
    refuse_repeated(answers, path, 'answer')
    return answers


def read_vqa_file(path: str | os.PathLike, kind: str, keys: Sequence[str]) -> dict:
    """The content of an official file of VQA.

    Args:
        path: The file.
        kind: ``'questions'`` or ``'annotations'``, under which its entries stand.
        keys: What each entry must have beside ``question_id`` and ``image_id``.

    Raises:
        AnnotationError: It is another file, an entry lacks something, or a question has two entries.
    """
    content = read_json(path, dict)
    if not isinstance(content.get(kind), list):
        raise AnnotationError(f'{path} must have a list {kind!r}')
    for number, entry in enumerate(content[kind]):
        place = f'{path}, entry {number} of {kind}'
        absent = [key for key in (*IDS, *keys) if not isinstance(entry, dict) or key not in entry]
        if absent:
            raise AnnotationError(f'{place}: must be a dict with {", ".join(absent)}')
        for key in IDS:
            if not isinstance(entry[key], int):
                raise AnnotationError(f'{place}: {key} must be a whole number, got {entry[key]!r}')
    refuse_repeated((entry['question_id'] for entry in content[kind]), path, 'question_id')
    return content


def _chosen_answers(path: str | os.PathLike) -> Iterator[str]:
    for entry in read_vqa_file(path, 'annotations', ('multiple_choice_answer',))['annotations']:
        answer = entry['multiple_choice_answer']
        if not isinstance(answer, str):
            raise AnnotationError(
                f'{path}, question_id {entry["question_id"]}: multiple_choice_answer must be a text, got {answer!r}'
            )
        yield normalize_answer(answer)
