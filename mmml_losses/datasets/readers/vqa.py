"""VQA v2: questions on images, with a soft label for each answer."""

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from mmengine.dataset import BaseDataset, force_full_init

from ...registry import DATASETS
from ...utils.answers import NUM_PEOPLE, SCORE_RULES, answer_score, normalize_answer
from ...utils.arguments import check_choice, check_suffix, check_whole_number
from ...utils.errors import AnnotationError, MissingDataError
from ...utils.files import replacing
from .annotation_files import read_json, reject_repeated, require_keys
from .reader import MultiLabelReader, score_row


@DATASETS.register_module()
class VQASoftAnswers(MultiLabelReader):
    """Questions of VQA v2 on images, with a soft label from 0 to 1 for every answer in a vocabulary.

    It needs the official json files and the images of COCO 2014. :func:`make_answer_file` writes the vocabulary once,
    from the annotations of train and val::

        data/vqa/
          answers.json
          v2_OpenEnded_mscoco_train2014_questions.json, v2_mscoco_train2014_annotations.json
          v2_OpenEnded_mscoco_val2014_questions.json, v2_mscoco_val2014_annotations.json
        data/coco/train2014/, data/coco/val2014/

    Ten people answered each question. :func:`normalize_answer` is applied to each answer, and answers outside of the
    vocabulary are ignored. Each sample is ``dict(img_path=..., question=..., question_id=..., gt_label=[...],
    gt_score=(C,), img_id=..., sample_name=...)``, in the order of ``question_file``. ``gt_score`` has the soft labels
    to train on, and ``gt_label`` the class indices with a score above 0. ``sample_name`` is ``str(question_id)``.

    Args:
        ann_file: Annotation file, with the ten answers to each question.
        question_file: Question file. ``ann_file`` must answer all its questions, and may answer more.
        answer_file: The vocabulary, a json list of answers in the order of the class indices.
        *args: Further arguments of :class:`MultiLabelReader`: ``data_root``, ``data_prefix`` and ``metainfo``.
        score_rule: Score of an answer that ``count`` of the ten people gave. ``'leave_one_out'`` is its official
            accuracy, the mean of min(1, count / 3) over all ways to choose nine people: 0.3, 0.6, 0.9 and 1 for a count
            of 1, 2, 3 and above 3, as in LXMERT. ``'thirds'`` is min(1, count / 3) over all ten. ``'any'`` is 1, a hard
            label as the metrics need it, without ``gt_score``.
        image_name: File name format such as ``'{split}_{image_id}.jpg'``; ``split`` is the questions' ``data_subtype``.
        **kwargs: Further arguments of :class:`MultiLabelReader`. ``drop_empty`` leaves out questions without an answer
            in the vocabulary.

    Example:
        >>> make_answer_file('data/vqa/answers.json', [
        ...     'data/vqa/v2_mscoco_train2014_annotations.json', 'data/vqa/v2_mscoco_val2014_annotations.json'])
        >>> dataset = VQASoftAnswers(
        ...     'vqa/v2_mscoco_val2014_annotations.json', 'vqa/v2_OpenEnded_mscoco_val2014_questions.json',
        ...     'vqa/answers.json', data_root='data', data_prefix='coco/val2014')
    """

    def __init__(
        self,
        ann_file: str,
        question_file: str,
        answer_file: str,
        *args,
        score_rule: str = 'leave_one_out',
        image_name: str = 'COCO_{split}_{image_id:012d}.jpg',
        **kwargs,
    ):
        self.score_rule = check_choice('score_rule', score_rule, SCORE_RULES)
        try:
            image_name.format(split='', image_id=0)
        except (LookupError, ValueError, AttributeError) as error:
            raise ValueError(f'image_name must use split and image_id alone, got {image_name!r}') from error
        self.image_name = image_name
        self.files = (ann_file, question_file, answer_file)
        super().__init__(ann_file, *args, **kwargs)

    def read_samples(self) -> Iterator[dict]:
        """Yield a dict for each question, in file order: question, ids, image path, class indices and their scores."""
        ann_file, question_file, answer_file = self.annotation_files()
        answers = read_json(answer_file, list)
        if not answers or not all(isinstance(answer, str) and answer for answer in answers):
            raise AnnotationError(f'{answer_file} must hold a list of answers')
        reject_repeated(answers, answer_file, 'answer')
        classes = self.choose_classes(list(answers), answer_file)
        annotations = {
            entry['question_id']: entry for entry in read_vqa_file(ann_file, 'annotations', ('answers',))['annotations']
        }
        content = read_vqa_file(question_file, 'questions', ('question',))
        split = content.get('data_subtype')
        if not isinstance(split, str):
            raise AnnotationError(f"{question_file} must name the split of its images in 'data_subtype', got {split!r}")
        for entry in content['questions']:
            question_id, image_id = entry['question_id'], entry['image_id']
            annotation = annotations.get(question_id)
            if annotation is None or annotation['image_id'] != image_id:
                raise AnnotationError(
                    f'{ann_file} must answer the questions of {question_file}, got none for question_id {question_id} '
                    f'on image {image_id}'
                )
            scores = self._scores(annotation, classes)
            yield dict(
                img_path=self.image_path(self.image_name.format(split=split, image_id=image_id), question_file),
                question=entry['question'],
                question_id=question_id,
                img_id=image_id,
                sample_name=str(question_id),
                gt_label=sorted(scores),
                **({} if self.score_rule == 'any' else dict(label_scores=[scores[label] for label in sorted(scores)])),
            )

    def _scores(self, annotation: Mapping, classes: Mapping[str, int]) -> dict[int, float]:
        """Return a dict from class index to score, for the answers to a question that are in the vocabulary."""
        answers, place = annotation['answers'], f'{self.ann_file}, question_id {annotation["question_id"]}'
        if not isinstance(answers, list) or len(answers) != NUM_PEOPLE:
            found = len(answers) if isinstance(answers, list) else repr(answers)
            raise AnnotationError(f'{place}: must have {NUM_PEOPLE} answers, got {found}')
        texts = [answer.get('answer') if isinstance(answer, dict) else answer for answer in answers]
        if not all(isinstance(text, str) for text in texts):
            raise AnnotationError(f"{place}: each answer must be a dict with a text 'answer', got {texts}")
        counts = Counter(map(normalize_answer, texts))
        return {
            classes[text]: answer_score(count, self.score_rule) for text, count in counts.items() if text in classes
        }

    @force_full_init
    def question_ids(self) -> np.ndarray:
        """Return the ``question_id`` of each sample, (N,) int64, to match features that were computed elsewhere."""
        # Faster than get_data_info of the reader, which makes a row of labels.
        infos = (BaseDataset.get_data_info(self, idx) for idx in range(len(self)))
        return np.asarray([info['question_id'] for info in infos], dtype=np.int64)

    def soft_labels(self, question_ids: Sequence[int]) -> np.ndarray:
        """Return soft labels (M, C) float32 in the order of ``question_ids``; an id without sample is a ValueError."""
        position_of = {question_id: idx for idx, question_id in enumerate(self.question_ids().tolist())}
        wanted = np.asarray(question_ids).tolist()
        unknown = [question_id for question_id in wanted if question_id not in position_of]
        if unknown:
            raise ValueError(f'question_ids must be ids of {type(self).__name__}, got {unknown[0]}')
        labels = np.zeros((len(wanted), len(self._metainfo['classes'])), dtype=np.float32)
        for row, question_id in zip(labels, wanted, strict=True):
            row[:] = score_row(BaseDataset.get_data_info(self, position_of[question_id]), len(row))
        return labels


IDS = ('question_id', 'image_id')


def make_answer_file(path: str | os.PathLike, ann_files: Sequence[str | os.PathLike], min_count: int = 9) -> list[str]:
    """Choose the most frequent answers as classes, and write them to a json file; an existing file is replaced.

    The count of an answer is the number of questions whose ``multiple_choice_answer``, the answer that most of the ten
    people gave, equals it after :func:`normalize_answer`. On train and val of VQA v2 together, a ``min_count`` of 9
    leaves about 3,100 answers (most published models have 3,129). Use these classes for training and every evaluation.

    Args:
        path: The file to write; its name must end with ``.json``.
        ann_files: Annotation files of VQA v2.
        min_count: Least count of an answer that becomes a class.

    Returns:
        List of the answers, the most frequent first; answers of equal count are in alphabetical order.
    """
    path = check_suffix('path', path, '.json')
    check_whole_number('min_count', min_count, least=1)
    missing = [os.fspath(file) for file in ann_files if not Path(file).is_file()]
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


def read_vqa_file(path: str | os.PathLike, kind: str, keys: Sequence[str]) -> dict:
    """Return the content of a question or annotation file as a dict; raise an AnnotationError if an entry lacks a key.

    Args:
        path: The json file.
        kind: Key of its list of entries, ``'questions'`` or ``'annotations'``.
        keys: Keys that each entry must have besides ``question_id`` and ``image_id``.
    """
    content = read_json(path, dict)
    if not isinstance(content.get(kind), list):
        raise AnnotationError(f'{path} must have a list {kind!r}')
    for number, entry in enumerate(content[kind]):
        place = f'{path}, entry {number} of {kind}'
        require_keys(entry, (*IDS, *keys), place)
        for key in IDS:
            if not isinstance(entry[key], int):
                raise AnnotationError(f'{place}: {key} must be a whole number, got {entry[key]!r}')
    reject_repeated((entry['question_id'] for entry in content[kind]), path, 'question_id')
    return content


def _chosen_answers(path: str | os.PathLike) -> Iterator[str]:
    for entry in read_vqa_file(path, 'annotations', ('multiple_choice_answer',))['annotations']:
        answer = entry['multiple_choice_answer']
        if not isinstance(answer, str):
            raise AnnotationError(
                f'{path}, question_id {entry["question_id"]}: multiple_choice_answer must be a text, got {answer!r}'
            )
        yield normalize_answer(answer)
