"""VQA v2: questions on images, with a soft label for each answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from mmengine.dataset import BaseDataset, force_full_init

from ...registry import DATASETS
from ..errors import AnnotationError
from .reader import MultiLabelReader, score_row
from .vqa_answers import normalize_answer, read_answer_file, read_vqa_file

NUM_PEOPLE = 10  # who answered each question
SCORE_RULES = ('leave_one_out', 'thirds', 'any')


@DATASETS.register_module()
class VQASoftAnswers(MultiLabelReader):
    """Questions of VQA v2, each with its image and a score from 0 to 1 for every answer of a vocabulary.

    The official files, with the images of COCO 2014, and a vocabulary that :func:`make_answer_file` writes once from
    the annotations of train and val::

        data/vqa/
          answers.json
          v2_OpenEnded_mscoco_train2014_questions.json, v2_mscoco_train2014_annotations.json
          v2_OpenEnded_mscoco_val2014_questions.json, v2_mscoco_val2014_annotations.json
        data/coco/train2014/, data/coco/val2014/

    Ten people answered each question. Their answers are compared after :func:`normalize_answer`; one that is not in the
    vocabulary is left out. Every item is ``dict(img_path=..., question=..., question_id=..., gt_label=[...],
    gt_score=(C,), img_id=..., sample_name=...)`` in the order of the file of questions. ``gt_score`` is the soft label
    to train on, and ``gt_label`` are the answers with a score above 0. ``sample_name``
    is the ``question_id``, and :meth:`question_ids` has all of them, for features that were computed elsewhere.

    Args:
        ann_file: Annotation file, which has the answers.
        question_file: File of the questions, or of some of those that ``ann_file`` answers.
        answer_file: The vocabulary, a json list of answers in the order of the class indices.
        *args: Further arguments of :class:`MultiLabelReader`: ``data_root``, ``data_prefix`` and ``metainfo``.
        score_rule: The score of an answer that ``count`` of the ten gave. ``'leave_one_out'`` is what the official
            accuracy would give for it, the mean of min(1, count / 3) over all choices of nine people: 0.3, 0.6, 0.9
            and 1 for one, two, three and more people, which is also what LXMERT trains on. ``'thirds'`` is
            min(1, count / 3) over all ten. ``'any'`` is 1, a hard label as the metrics need it, without ``gt_score``.
        image_name: How images are called, with ``split`` from the file of questions (``data_subtype``) and
            ``image_id``.
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
        if score_rule not in SCORE_RULES:
            raise ValueError(f'score_rule must be one of {", ".join(SCORE_RULES)}, got {score_rule!r}')
        try:
            image_name.format(split='', image_id=0)
        except (LookupError, ValueError, AttributeError) as error:
            raise ValueError(f'image_name must use split and image_id alone, got {image_name!r}') from error
        self.score_rule = score_rule
        self.image_name = image_name
        self._question_file = question_file
        self._answer_file = answer_file
        super().__init__(ann_file, *args, **kwargs)

    def annotation_files(self) -> list[str]:
        """The annotations, the questions and the vocabulary."""
        return [self.ann_file, self.path_below_root(self._question_file), self.path_below_root(self._answer_file)]

    def read_samples(self) -> Iterator[dict]:
        """The questions, in the order of their file."""
        ann_file, question_file, answer_file = self.annotation_files()
        classes = self.choose_classes(read_answer_file(answer_file), answer_file)
        annotations = {
            entry['question_id']: entry for entry in read_vqa_file(ann_file, 'annotations', ('answers',))['annotations']
        }
        content = read_vqa_file(question_file, 'questions', ('question',))
        split = content.get('data_subtype')
        if not isinstance(split, str):
            raise AnnotationError(f"{question_file} must say in 'data_subtype' which images it is about, got {split!r}")
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
        """The score of each class that is among the answers to a question."""
        answers = annotation['answers']
        if not isinstance(answers, list) or len(answers) != NUM_PEOPLE:
            found = len(answers) if isinstance(answers, list) else repr(answers)
            raise AnnotationError(
                f'{self.ann_file}, question_id {annotation["question_id"]}: must have {NUM_PEOPLE} answers, got {found}'
            )
        texts = [answer.get('answer') if isinstance(answer, dict) else answer for answer in answers]
        if not all(isinstance(text, str) for text in texts):
            raise AnnotationError(
                f'{self.ann_file}, question_id {annotation["question_id"]}: each answer must be a dict with a text '
                f"'answer', got {texts}"
            )
        counts = Counter(map(normalize_answer, texts))
        return {
            classes[text]: answer_score(count, self.score_rule) for text, count in counts.items() if text in classes
        }

    @force_full_init
    def question_ids(self) -> np.ndarray:
        """The ``question_id`` of each sample, (N,) int64."""
        # The reader's data infos would make a row of labels each.
        infos = (BaseDataset.get_data_info(self, idx) for idx in range(len(self)))
        return np.asarray([info['question_id'] for info in infos], dtype=np.int64)

    def soft_labels(self, question_ids: Sequence[int]) -> np.ndarray:
        """The soft labels of some questions, (M, C) float32, to store beside features that were computed elsewhere.

        Args:
            question_ids: M ids, in any order.
        """
        position_of = {question_id: idx for idx, question_id in enumerate(self.question_ids().tolist())}
        wanted = np.asarray(question_ids).tolist()
        unknown = [question_id for question_id in wanted if question_id not in position_of]
        if unknown:
            raise ValueError(f'question_ids must be ids of {type(self).__name__}, got {unknown[0]}')
        labels = np.zeros((len(wanted), len(self.CLASSES)), dtype=np.float32)
        for row, question_id in zip(labels, wanted, strict=True):
            row[:] = score_row(BaseDataset.get_data_info(self, position_of[question_id]), len(row))
        return labels


def answer_score(count: int, rule: str = 'leave_one_out') -> float:
    """The score of an answer that ``count`` of ten people gave, see :class:`VQASoftAnswers`."""
    if rule == 'any':
        return 1.0
    if rule == 'thirds':
        return min(1.0, count / 3)
    # Of the choices of nine people, ``count`` leave out one of those who gave it, and the others none.
    without, within = min(3, count - 1), min(3, count)
    return (count * without + (NUM_PEOPLE - count) * within) / (3 * NUM_PEOPLE)
