"""Matching by hand and as COCO does it, and the metric on MMDetection's samples, in one process and in two."""

import io
import json
from contextlib import redirect_stdout

import numpy as np
import pytest
import torch
import torch.distributed
import torch.multiprocessing
from mmengine.dataset import DefaultSampler
from mmengine.evaluator import Evaluator
from mmengine.registry import METRICS as ROOT_METRICS
from mmengine.structures import BaseDataElement, InstanceData

from mmml_losses.evaluation import (
    DetectionCalibrationError,
    Detections,
    MultiLabelEvaluator,
    Objects,
    brier_score,
    calibration_errors,
    load_predictions,
    match_detections,
    match_images,
    reliability_bins,
)
from mmml_losses.evaluation.functional.detection import are_detections

NUM_IMAGES, WORLD_SIZE = 11, 2


def box(x, y=0.0, width=10.0, height=10.0):
    return [x, y, x + width, y + height]


def match(detected, true, ignored=(), **kwargs):
    """Match detections (box, score, label) with objects (box, label), and with ``ignored`` objects (box, label)."""
    boxes, scores, labels = zip(*detected, strict=True) if detected else ((), (), ())
    objects = [*true, *ignored]
    flags = [False] * len(true) + [True] * len(ignored)
    return match_detections(
        Detections(boxes, scores, labels),
        Objects([each[0] for each in objects], [each[1] for each in objects], flags),
        **kwargs,
    ).tolist()


def test_each_object_is_found_once_by_the_best_score():
    assert match([(box(0), 0.6, 0), (box(1), 0.9, 0)], [(box(0), 0)]) == [0, 1]


def test_the_best_overlap_is_taken():
    # The first takes the second object (overlap 1), so the other detection finds the first (8/12).
    objects = [(box(0), 0), (box(2), 0)]
    assert match([(box(2), 0.9, 0), (box(0), 0.5, 0)], objects) == [1, 1]
    # At IoU 0.6 the second best is enough where the best is taken: 8/12.
    assert match([(box(2), 0.9, 0), (box(2), 0.8, 0), (box(2), 0.7, 0)], objects, iou_threshold=0.6) == [1, 1, 0]


def test_classes_do_not_meet():
    assert match([(box(0), 0.9, 1), (box(0), 0.1, 0)], [(box(0), 0)]) == [0, 1]


def test_the_threshold_itself_is_a_match():
    # Intersection 5 x 10 over union 15 x 10.
    assert match([(box(5), 0.9, 0)], [(box(0), 0)], iou_threshold=1 / 3) == [1]
    assert match([(box(5), 0.9, 0)], [(box(0), 0)], iou_threshold=0.34) == [0]
    assert match([(box(0), 0.9, 0)], [(box(0), 0)], iou_threshold=1.0) == [1]


def test_ignored_objects_excuse_any_number_of_detections():
    crowd = [(box(0, 0, 100, 100), 0)]
    small = [(box(10), 0.9, 0), (box(30), 0.8, 0), (box(200), 0.7, 0), (box(10), 0.6, 1)]
    assert match(small, [], crowd) == [-1, -1, 0, 0]
    # Measured as other objects are, the small boxes hardly overlap with it.
    assert match(small, [], crowd, ignored_overlap='union') == [0, 0, 0, 0]


def test_a_true_object_goes_before_an_ignored_one():
    crowd = [(box(0, 0, 100, 100), 0)]
    assert match([(box(11), 0.9, 0), (box(10), 0.8, 0)], [(box(10), 0)], crowd) == [1, -1]


def test_nothing_detected_and_nothing_there():
    assert match([], [(box(0), 0)]) == []
    assert match([(box(0), 0.5, 0)], []) == [0]
    assert match([], []) == []


def test_boxes_without_area_find_nothing():
    assert match([([3, 3, 3, 3], 0.5, 0)], [([3, 3, 3, 3], 0)]) == [0]


def test_order_of_the_input_changes_nothing():
    # With equal scores, the first detection would leave the second nothing if it went first.
    detected = [(box(1), 0.5, 0), (box(0), 0.5, 0)]
    objects = [(box(0), 0), (box(4), 0)]
    assert match(detected, objects) == [1, 1]
    assert match(detected[::-1], objects[::-1]) == [1, 1]
    rng = np.random.default_rng(0)
    for _ in range(30):
        detections, objects = random_image(rng, tied=True)
        expected = sorted(zip(detections.scores.tolist(), match_detections(detections, objects), strict=True))
        order, others = rng.permutation(len(detections.scores)), rng.permutation(len(objects.labels))
        shuffled = Detections(*(part[order] for part in detections))
        matched = match_detections(shuffled, Objects(*(part[others] for part in objects)))
        assert sorted(zip(shuffled.scores.tolist(), matched, strict=True)) == expected


@pytest.mark.parametrize('min_score', [-0.1, 1.5, float('nan')])
def test_scores_to_leave_out_are_probabilities(min_score):
    with pytest.raises(ValueError, match=r'min_score must lie in \[0, 1\], got'):
        match_images([], min_score=min_score)


def random_image(rng, num_detections=25, num_objects=9, tied=False):
    """Make detections around objects of three classes, some of them crowds."""
    corners = rng.uniform(0, 60, (num_objects, 2))
    true_boxes = np.concatenate([corners, corners + rng.uniform(10, 40, (num_objects, 2))], axis=1)
    labels, ignored = rng.integers(0, 3, num_objects), rng.random(num_objects) < 0.25
    chosen = rng.integers(0, num_objects, num_detections)
    boxes = true_boxes[chosen] + rng.normal(0, 2.5, (num_detections, 4))
    boxes[:, 2:] = np.maximum(boxes[:, 2:], boxes[:, :2] + 1)
    scores = rng.integers(0, 5, num_detections) / 4 if tied else rng.random(num_detections)
    mistaken = rng.random(num_detections) < 0.15
    predicted = np.where(mistaken, rng.integers(0, 3, num_detections), labels[chosen])
    return Detections(boxes, scores, predicted), Objects(true_boxes, labels, ignored)


def coco_matches(detections, objects, iou_threshold):
    """Match an image with pycocotools, as 1, 0 and -1."""
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    def xywh(each):
        return [*each[:2].tolist(), *(each[2:] - each[:2]).tolist()]

    truth = COCO()
    truth.dataset = {
        'info': {},
        'images': [{'id': 1}],
        'categories': [{'id': index} for index in range(3)],
        'annotations': [
            {
                'id': number + 1,
                'image_id': 1,
                'category_id': int(label),
                'bbox': xywh(each),
                'area': 1.0,
                'iscrowd': int(crowd),
            }
            for number, (each, label, crowd) in enumerate(zip(*objects, strict=True))
        ],
    }
    with redirect_stdout(io.StringIO()):
        truth.createIndex()
        found = truth.loadRes(
            [
                {'image_id': 1, 'category_id': int(label), 'bbox': xywh(each), 'score': float(score)}
                for each, score, label in zip(*detections, strict=True)
            ]
        )
        evaluation = COCOeval(truth, found, 'bbox')
        evaluation.params.iouThrs = np.array([iou_threshold])
        evaluation.params.maxDets = [1000]
        evaluation.params.areaRng = [[0, 1e10]]
        evaluation.evaluate()
    matched = np.zeros(len(detections.scores), dtype=int)
    for part in filter(None, evaluation.evalImgs):
        for number, match_id, ignored in zip(part['dtIds'], part['dtMatches'][0], part['dtIgnore'][0], strict=True):
            matched[number - 1] = -1 if ignored else match_id > 0
    return matched


@pytest.mark.parametrize('iou_threshold', [0.3, 0.5, 0.75])
def test_matches_equal_those_of_coco(iou_threshold):
    rng = np.random.default_rng(0)
    fates = []
    for _ in range(25):
        image = random_image(rng)
        matched = match_detections(*image, iou_threshold)
        np.testing.assert_array_equal(matched, coco_matches(*image, iou_threshold))
        fates += matched.tolist()
    assert set(fates) == {-1, 0, 1}


def all_images():
    rng = np.random.default_rng(0)
    images = [random_image(rng, num_detections=int(rng.integers(1, 60))) for _ in range(NUM_IMAGES - 2)]
    images.insert(2, (Detections(np.zeros((0, 4)), np.zeros(0), np.zeros(0, int)), images[0][1]))
    images.insert(4, (images[0][0], Objects(np.zeros((0, 4)), np.zeros(0, int), np.zeros(0, bool))))
    return [(Detections(each[0].boxes, each[0].scores.astype(np.float32), each[0].labels), each[1]) for each in images]


def test_matched_images_are_probabilities_with_labels():
    netcal = pytest.importorskip('netcal.metrics')
    images = all_images()
    matches = match_images(images, iou_threshold=0.6, min_score=0.3)
    scores = np.concatenate([each.scores for each, _ in images]).astype(np.float64)
    matched = np.concatenate([match_detections(*image, iou_threshold=0.6) for image in images])
    counted = (scores >= 0.3) & (matched >= 0)
    assert matches.num_below == (scores < 0.3).sum()
    assert matches.num_ignored == ((scores >= 0.3) & (matched < 0)).sum() > 0
    assert matches.scores.shape == (NUM_IMAGES, max(len(each.scores) for each, _ in images))

    errors = calibration_errors(reliability_bins(matches.scores, matches.matched))
    for name, ours in zip(('ACE', 'MCE', 'ECE'), errors, strict=True):
        theirs = getattr(netcal, name)(10, detection=True).measure(scores[counted], matched[counted])
        assert ours == pytest.approx(theirs, abs=1e-12)


def test_no_images_give_nothing():
    matches = match_images([])
    assert matches.scores.shape == (0, 0)
    assert np.isnan(calibration_errors(reliability_bins(matches.scores, matches.matched))).all()


@pytest.mark.parametrize(
    ('detections', 'objects', 'message'),
    [
        (
            Detections([[0, 0, 1]], [0.5], [0]),
            Objects([], []),
            r'boxes of detections must have the shape',
        ),
        (Detections([box(0)], [0.5, 0.4], [0]), Objects([], []), 'scores of detections must be as many as the 1 boxes'),
        (Detections([box(0)], [np.nan], [0]), Objects([], []), 'scores of detections must not hold NaN'),
        (Detections([box(np.nan)], [0.5], [0]), Objects([], []), 'boxes of detections must not hold NaN'),
        (Detections([], [], []), Objects([box(0)], []), 'labels of objects must be as many as the 1 boxes, got 0'),
        (Detections([], [], []), Objects([box(0)], [0], [True, False]), 'ignored of objects must be as many as the 1'),
    ],
)
def test_bad_images_are_rejected(detections, objects, message):
    with pytest.raises(ValueError, match=message):
        match_detections(detections, objects)


def test_bad_arguments_are_rejected():
    with pytest.raises(ValueError, match='iou_threshold must be above 0 and at most 1, got 0'):
        match([], [], iou_threshold=0)
    with pytest.raises(ValueError, match=r"ignored_overlap must be one of .*, got 'iou'"):
        match([], [], ignored_overlap='iou')
    with pytest.raises(ValueError, match=r'min_score must lie in \[0, 1\], got 2'):
        DetectionCalibrationError(min_score=2)
    with pytest.raises(ValueError, match='num_bins must be at least 1, got 0'):
        DetectionCalibrationError(num_bins=0)


def instances(boxes, labels, **more):
    tensors = {name: torch.as_tensor(values) for name, values in more.items()}
    return InstanceData(bboxes=torch.as_tensor(boxes), labels=torch.as_tensor(labels), **tensors)


def data_sample(image, kind=BaseDataElement):
    """Make an image with annotations as a detector returns it."""
    detections, objects = image
    sample = kind()
    sample.pred_instances = instances(detections.boxes, detections.labels, scores=detections.scores)
    sample.gt_instances = instances(objects.boxes[~objects.ignored], objects.labels[~objects.ignored])
    sample.ignored_instances = instances(objects.boxes[objects.ignored], objects.labels[objects.ignored])
    return sample


def evaluate(metric, samples, evaluator=Evaluator):
    evaluator = evaluator([metric])
    for start in range(0, len(samples), 3):
        evaluator.process(samples[start : start + 3])
    return evaluator.evaluate(len(samples))


@pytest.mark.parametrize('evaluator', [Evaluator, MultiLabelEvaluator])
def test_metric_equals_the_functions_in_percent(evaluator):
    metric = DetectionCalibrationError(
        min_score=0.2, num_bins=5, items=['ECE', 'ACE', 'Brier', 'slope'], num_resamples=20
    )
    metrics = evaluate(metric, [data_sample(image) for image in all_images()], evaluator)
    matches = match_images(all_images(), min_score=0.2)
    errors = calibration_errors(reliability_bins(matches.scores, matches.matched, 5))
    assert metrics['detection/D-ECE'] == pytest.approx(100 * errors.ece)
    assert metrics['detection/D-ACE'] == pytest.approx(100 * errors.ace)
    assert metrics['detection/D-Brier'] == pytest.approx(100 * brier_score(matches.scores, matches.matched))
    assert metrics['detection/D-ECE_lower'] < metrics['detection/D-ECE_upper']
    details = metric.details()
    assert details['num_ignored'] == matches.num_ignored
    assert details['num_below_min_score'] == matches.num_below
    assert details['num_matched'] + details['num_unmatched'] == details['num_pairs'] == metric.bins.counts.sum()
    json.dumps(details)


def test_metric_builds_from_the_root_registry_and_starts_afresh():
    metric = ROOT_METRICS.build({'type': 'mmml_losses.DetectionCalibrationError', 'prefix': 'val'})
    samples = [data_sample(image) for image in all_images()]
    first = evaluate(metric, samples)
    assert set(first) == {'val/D-ACE', 'val/D-MCE', 'val/D-ECE'}
    assert evaluate(metric, samples) == first


def test_no_images_and_no_detections_give_nan():
    assert np.isnan(list(DetectionCalibrationError().evaluate(0).values())).all()
    assert np.isnan(list(evaluate(DetectionCalibrationError(), [data_sample(all_images()[2])]).values())).all()


def test_bad_samples_are_rejected_at_once():
    sample = data_sample(all_images()[0]).to_dict()
    process = DetectionCalibrationError().process
    with pytest.raises(ValueError, match=r'scores of pred_instances must hold probabilities in \[0, 1\] for Detection'):
        process(None, [{**sample, 'pred_instances': {**sample['pred_instances'], 'scores': torch.full((1,), 3.0)}}])
    with pytest.raises(ValueError, match='data samples must hold gt_instances with bboxes, got none: the pipeline'):
        process(None, [{'pred_instances': sample['pred_instances']}])
    with pytest.raises(ValueError, match='data samples must hold pred_instances, got'):
        process(None, [{'gt_instances': sample['gt_instances']}])


@pytest.mark.needs_mmdet
def test_metric_reads_the_samples_of_mmdet():
    from mmdet.datasets.transforms import PackDetInputs
    from mmdet.structures import DetDataSample
    from mmdet.structures.bbox import HorizontalBoxes

    expected = evaluate(DetectionCalibrationError(), [data_sample(image) for image in all_images()])
    assert (
        evaluate(DetectionCalibrationError(), [data_sample(each, DetDataSample) for each in all_images()]) == expected
    )

    # As the pipeline of a test packs them: boxes of their own class, crowds by a flag, and the preprocessor's tensors.
    packed = []
    for detections, objects in all_images():
        results = {
            'img': np.zeros((8, 8, 3), np.uint8),
            'gt_bboxes': HorizontalBoxes(torch.as_tensor(objects.boxes)),
            'gt_bboxes_labels': objects.labels,
            'gt_ignore_flags': objects.ignored,
        }
        sample = PackDetInputs(meta_keys=())(results)['data_samples']
        sample.pred_instances = data_sample((detections, objects)).pred_instances
        packed.append(sample)
    assert evaluate(DetectionCalibrationError(), packed) == pytest.approx(expected, rel=1e-12)


def run_metric(round_up):
    """Pass the samples that MMEngine's sampler gives to this rank to the metric."""
    metric = DetectionCalibrationError(min_score=0.2, items=('ECE', 'MCE', 'NLL'))
    images = all_images()
    for index in DefaultSampler(range(NUM_IMAGES), shuffle=False, seed=0, round_up=round_up):
        metric.process(None, [data_sample(images[index]).to_dict()])
    return metric.evaluate(NUM_IMAGES)


def worker(rank, folder):
    torch.set_num_threads(1)
    torch.distributed.init_process_group('gloo', f'file://{folder}/store', rank=rank, world_size=WORLD_SIZE)
    (folder / f'rank{rank}.json').write_text(json.dumps([run_metric(True), run_metric(False)]))
    torch.distributed.destroy_process_group()


def test_two_processes_equal_one(tmp_path):
    torch.multiprocessing.spawn(worker, args=(tmp_path,), nprocs=WORLD_SIZE)
    expected = run_metric(True)
    for rank in range(WORLD_SIZE):
        assert json.loads((tmp_path / f'rank{rank}.json').read_text()) == [expected, expected]


def test_matched_detections_are_saved_for_pictures(tmp_path):
    file = tmp_path / 'new' / 'detections.npz'
    metric = DetectionCalibrationError(min_score=0.2, out_file=file)
    evaluate(metric, [data_sample(image) for image in all_images()])
    saved = load_predictions(file)
    assert are_detections(saved.class_names)
    bins = reliability_bins(saved.scores, saved.labels)
    assert bins.counts.tolist() == metric.bins.counts.tolist()
    assert bins.positive_rate.tolist() == pytest.approx(metric.bins.positive_rate.tolist(), nan_ok=True)
    with pytest.raises(ValueError, match=r"out_file must end with '\.npz', got 'x\.json'"):
        DetectionCalibrationError(out_file='x.json')


def test_columns_of_classes_are_not_taken_for_detections():
    assert not are_detections(('cat', 'dog'))
    assert not are_detections(('0', '1'))
