import json
from itertools import combinations
from pathlib import Path

import cv2
import numpy as np
import pytest

import mmml_losses  # noqa: F401 (repairs the import of torchvision that mmpretrain needs)
from mmml_losses.datasets import (
    AnnotationError,
    FeatureDataset,
    MissingDataError,
    VQASoftAnswers,
    make_answer_file,
    normalize_answer,
    read_labels,
)
from mmml_losses.datasets.readers.vqa import answer_score
from mmml_losses.registry import DATASETS
from tests.helpers.base_config import datasets_of_config

VOCABULARY = ['no', 'yes', '2', 'net', "don't know"]
# question_id: the ten answers, with how often each was given
ANSWERS = {
    458752000: dict(net=5, netting=1, Net=1, mesh=3),
    458752001: {'Yes.': 1, 'no': 2, 'two': 3, 'dont know': 4},
    262146000: dict(orange=10),
}


def question_file(split: str) -> str:
    return f'v2_OpenEnded_mscoco_{split}_questions.json'


def ann_file(split: str) -> str:
    return f'v2_mscoco_{split}_annotations.json'


def header(split: str) -> dict:
    return dict(info=dict(version='2.0'), data_type='mscoco', data_subtype=split, license=dict(name='CC BY 4.0'))


def questions(split: str) -> dict:
    entries = [dict(image_id=key // 1000, question='What is this?', question_id=key) for key in ANSWERS]
    return header(split) | dict(task_type='Open-Ended', questions=entries)


def annotation(question_id: int, counts: dict[str, int]) -> dict:
    given = [answer for answer, count in counts.items() for _ in range(count)]
    return dict(
        question_type='what is this',
        multiple_choice_answer=max(counts, key=counts.get),
        answers=[dict(answer=a, answer_confidence='maybe', answer_id=i) for i, a in enumerate(given, start=1)],
        image_id=question_id // 1000,
        answer_type='other',
        question_id=question_id,
    )


def annotations(split: str) -> dict:
    # In another order than the questions.
    return header(split) | dict(annotations=[annotation(key, ANSWERS[key]) for key in sorted(ANSWERS)])


@pytest.fixture
def data_root(tmp_path: Path) -> Path:
    (tmp_path / 'vqa').mkdir()
    (tmp_path / 'vqa' / 'answers.json').write_text(json.dumps(VOCABULARY))
    for split in ('train2014', 'val2014'):
        (tmp_path / 'vqa' / question_file(split)).write_text(json.dumps(questions(split)))
        (tmp_path / 'vqa' / ann_file(split)).write_text(json.dumps(annotations(split)))
        (tmp_path / 'coco' / split).mkdir(parents=True)
        for image_id in (458752, 262146):
            path = tmp_path / 'coco' / split / f'COCO_{split}_{image_id:012d}.jpg'
            cv2.imwrite(str(path), np.zeros((6, 8, 3), dtype=np.uint8))
    return tmp_path


def build(root: Path, **kwargs) -> VQASoftAnswers:
    return VQASoftAnswers(
        f'vqa/{ann_file("train2014")}',
        f'vqa/{question_file("train2014")}',
        'vqa/answers.json',
        str(root),
        'coco/train2014',
        **kwargs,
    )


def infos(dataset) -> list[dict]:
    return [dataset.get_data_info(idx) for idx in range(len(dataset))]


def test_questions_have_soft_labels(data_root):
    dataset = build(data_root)
    assert list(dataset.CLASSES) == VOCABULARY
    first, second, third = infos(dataset)
    score = first.pop('gt_score')
    assert first == dict(
        img_path=str(data_root / 'coco/train2014/COCO_train2014_000000458752.jpg'),
        question='What is this?',
        question_id=458752000,
        gt_label=[3],
        img_id=458752,
        sample_name='458752000',
        sample_idx=0,
    )
    assert score.dtype == np.float32
    assert score.tolist() == [0, 0, 0, 1, 0]  # six of ten, once their spelling is the same
    assert second['gt_score'].tolist() == np.float32([0.6, 0.3, 0.9, 0, 1]).tolist()
    assert second['gt_label'] == [0, 1, 2, 4]
    assert (third['gt_label'], third['gt_score'].tolist()) == ([], [0] * 5)


def test_the_score_is_what_the_official_accuracy_gives():
    for count in range(1, 11):
        people = [number < count for number in range(10)]
        accuracy = np.mean([min(1, sum(nine) / 3) for nine in combinations(people, 9)])
        assert answer_score(count) == pytest.approx(accuracy)
    assert [answer_score(count, 'thirds') for count in (1, 2, 3, 4)] == [1 / 3, 2 / 3, 1, 1]


def test_the_rule_of_the_score_is_an_argument(data_root):
    thirds = build(data_root, score_rule='thirds').get_data_info(1)
    assert thirds['gt_score'].tolist() == np.float32([2 / 3, 1 / 3, 1, 0, 1]).tolist()
    hard = build(data_root, score_rule='any')
    assert [info['gt_label'] for info in infos(hard)] == [[3], [0, 1, 2, 4], []]
    assert not any('gt_score' in info for info in infos(hard))
    with pytest.raises(ValueError, match="score_rule must be one of 'leave_one_out', 'thirds', 'any', got 'mean'"):
        build(data_root, score_rule='mean')


def test_questions_without_an_answer_in_the_vocabulary_can_be_dropped(data_root):
    assert build(data_root, drop_empty=True).question_ids().tolist() == [458752000, 458752001]


def test_chosen_answers_are_the_classes(data_root):
    dataset = build(data_root, metainfo=dict(classes=['2', 'net']))
    assert [info['gt_score'].tolist() for info in infos(dataset)] == [[0, 1], np.float32([0.9, 0]).tolist(), [0, 0]]


def test_soft_labels_are_rejected_where_labels_must_be_hard(data_root):
    with pytest.raises(AnnotationError, match=r'gt_score must be 1 \(positive\), 0 \(negative\) or -1'):
        read_labels(build(data_root))
    assert read_labels(build(data_root, score_rule='any')).labels.sum() == 5


def test_labels_join_features_by_the_question_id(data_root, tmp_path):
    dataset = build(data_root)
    assert dataset.question_ids().dtype == np.int64
    # Features in an order of their own, for some of the questions.
    ids = np.array([458752001, 458752000])
    file = tmp_path / 'features.npz'
    np.savez(file, features=np.eye(2, dtype=np.float32), labels=dataset.soft_labels(ids), ids=ids, classes=VOCABULARY)
    joined = FeatureDataset(str(file))
    assert joined.CLASSES == dataset.CLASSES
    for idx, own in enumerate((1, 0)):
        info, expected = joined.get_data_info(idx), dataset.get_data_info(own)
        assert info['gt_score'].tolist() == expected['gt_score'].tolist()
        assert (info['img_id'], info['sample_name']) == (expected['question_id'], expected['sample_name'])
    with pytest.raises(ValueError, match='question_ids must be ids of VQASoftAnswers, got 7'):
        dataset.soft_labels([7])
    assert build(data_root, score_rule='any').soft_labels([458752001]).tolist() == [[1, 1, 1, 0, 1]]


@pytest.mark.parametrize(
    ('answer', 'expected'),
    [
        ('The  Dog', 'dog'),
        ('an apple\n', 'apple'),
        ('Ten', '10'),
        ('none', '0'),
        ('twenty', 'twenty'),
        ('yes.', 'yes'),
        ('2.5', '2.5'),
        ('U.S.', 'us'),
        ('1,000', '1000'),
        ('red,white', 'red white'),
        ('red, white', 'red white'),
        ('black/white', 'black white'),
        ('black / white', 'black white'),
        ('t-shirt', 't shirt'),
        ('what?', 'what'),
        ('dont know', "don't know"),
        ("child's", "child's"),
        ('a', ''),
    ],
)
def test_answers_are_compared_in_one_form(answer, expected):
    assert normalize_answer(answer) == expected
    assert normalize_answer(expected) == expected


def vocabulary_source(path: Path, chosen: list[str]) -> Path:
    entries = [annotation(number, {answer: 10}) for number, answer in enumerate(chosen)]
    path.write_text(json.dumps(header('train2014') | dict(annotations=entries)))
    return path


def test_the_vocabulary_has_the_frequent_answers_in_a_fixed_order(tmp_path):
    train = vocabulary_source(tmp_path / 'train.json', ['b'] * 6 + ['Yes'] * 20 + ['rare'] * 8 + ['the'] * 30)
    val = vocabulary_source(tmp_path / 'val.json', ['b.'] * 3 + ['one'] * 9)
    out = tmp_path / 'new' / 'answers.json'
    assert make_answer_file(out, [train, val]) == ['yes', '1', 'b']
    assert json.loads(out.read_text()) == ['yes', '1', 'b']
    assert make_answer_file(out, [train, val], min_count=8) == ['yes', '1', 'b', 'rare']
    assert list(out.parent.iterdir()) == [out]


def test_a_vocabulary_that_cannot_be_made_is_rejected(tmp_path):
    train = vocabulary_source(tmp_path / 'train.json', ['yes'])
    out = tmp_path / 'answers.json'
    with pytest.raises(ValueError, match='min_count must leave some of the 1 answers, got 9'):
        make_answer_file(out, [train])
    with pytest.raises(ValueError, match='min_count must be at least 1, got 0'):
        make_answer_file(out, [train], min_count=0)
    with pytest.raises(ValueError, match=r"path must end with '\.json'"):
        make_answer_file(tmp_path / 'answers.txt', [train])
    with pytest.raises(MissingDataError, match=r'ann_files must be files of annotations, missing: .*none\.json'):
        make_answer_file(out, [train, tmp_path / 'none.json'])
    content = json.loads(train.read_text())
    content['annotations'][0]['multiple_choice_answer'] = 3
    train.write_text(json.dumps(content))
    with pytest.raises(AnnotationError, match=r'train\.json, question_id 0: multiple_choice_answer must be a text'):
        make_answer_file(out, [train], min_count=1)
    assert not out.exists()


def test_missing_files_are_named(tmp_path):
    dataset = build(tmp_path, lazy_init=True)
    names = (f'vqa/{ann_file("train2014")}', f'vqa/{question_file("train2014")}', 'vqa/answers.json', 'coco/train2014')
    assert dataset.missing_files() == [str(tmp_path / name) for name in names]
    with pytest.raises(MissingDataError, match=r'VQASoftAnswers needs the annotation files .*answers\.json'):
        dataset.full_init()


def changed(content: dict, key: str, **changes) -> dict:
    first, *others = content[key]
    entry = {name: value for name, value in (first | changes).items() if value is not ...}
    return content | {key: [entry, *others]}


def changed_question(**changes) -> dict:
    return changed(questions('train2014'), 'questions', **changes)


def changed_annotation(**changes) -> dict:
    return changed(annotations('train2014'), 'annotations', **changes)


@pytest.mark.parametrize(
    ('file', 'content', 'problem'),
    [
        ('questions', dict(annotations=[]), "must have a list 'questions'"),
        ('questions', questions('train2014') | dict(questions=[]), 'must have samples, got none'),
        ('questions', questions('train2014') | dict(data_subtype=None), "must name the split .* in 'data_subtype'"),
        ('questions', questions('train2014') | dict(data_subtype='/../x'), 'must name images by paths below'),
        ('questions', changed_question(question_id=458752001), 'has the question_id 458752001 more than once'),
        ('questions', changed_question(image_id='4'), "entry 0 of questions: image_id must be a whole number, got '4'"),
        ('questions', changed_question(question=...), 'entry 0 of questions: must be a dict with question'),
        ('annotations', changed_annotation(question_id=5), 'must answer the questions of .* question_id 262146000'),
        ('annotations', changed_annotation(image_id=5), 'must answer the questions of .* question_id 262146000'),
        ('annotations', changed_annotation(answers=[]), 'question_id 262146000: must have 10 answers, got 0'),
        ('annotations', changed_annotation(answers=None), 'question_id 262146000: must have 10 answers, got None'),
        ('annotations', changed_annotation(answers=[{}] * 10), 'question_id 262146000: each answer must be a dict'),
        ('annotations', changed_annotation(answers=...), 'entry 0 of annotations: must be a dict with answers'),
        ('annotations', [], 'must hold a dict, got a list'),
        ('answers', {}, 'must hold a list, got a dict'),
        ('answers', [], 'must hold a list of answers'),
        ('answers', ['yes', ''], 'must hold a list of answers'),
        ('answers', ['yes', 'yes'], "has the answer 'yes' more than once"),
    ],
)
def test_an_unfit_file_is_named(data_root, file, content, problem):
    [path] = (data_root / 'vqa').glob('answers.json' if file == 'answers' else f'*train2014_{file}.json')
    path.write_text(json.dumps(content))
    with pytest.raises(AnnotationError, match=rf'{file}\.json.*{problem}'):
        build(data_root)


def test_truncated_files_are_named(data_root):
    for path in sorted((data_root / 'vqa').glob('*train2014*.json')):
        content = path.read_text()
        path.write_text(content[:-20])
        with pytest.raises(AnnotationError, match=rf'{path.name} is not a json file'):
            build(data_root)
        path.write_text(content)


def test_images_may_have_other_names(data_root):
    dataset = build(data_root, image_name='{image_id:012d}.jpg')
    assert dataset.get_data_info(0)['img_path'] == str(data_root / 'coco/train2014/000000458752.jpg')
    for wrong in ('{name}.jpg', '{}.jpg', '{image_id', '{split:d}'):
        with pytest.raises(ValueError, match='image_name must use split and image_id alone'):
            build(data_root, image_name=wrong)


def test_the_config_packs_questions(data_root):
    (data_root / 'vqa' / 'answers.json').write_text(json.dumps(VOCABULARY + [f'answer {i}' for i in range(5, 3129)]))
    train, test = datasets_of_config('vqa_v2', data_root)
    sample = train[1]['data_samples']
    assert (sample.question, sample.question_id) == ('What is this?', 458752001)
    assert sample.gt_score[:5].tolist() == np.float32([0.6, 0.3, 0.9, 0, 1]).tolist()
    assert 'gt_score' not in test[1]['data_samples']
    (data_root / 'coco/val2014/COCO_val2014_000000458752.jpg').unlink()
    with pytest.raises(FileNotFoundError, match=r'COCO_val2014_000000458752\.jpg'):
        test[0]


def test_it_builds_from_the_registry(data_root):
    cfg = dict(
        type='mmml_losses.VQASoftAnswers',
        ann_file=f'vqa/{ann_file("val2014")}',
        question_file=f'vqa/{question_file("val2014")}',
        answer_file='vqa/answers.json',
        data_root=str(data_root),
        data_prefix='coco/val2014',
    )
    assert DATASETS.build(cfg).missing_files() == []
