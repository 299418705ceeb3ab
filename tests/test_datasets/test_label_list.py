"""Lists in the form in which those of the Hill and SPLC paper were published, with its stray spaces."""

import gzip

import numpy as np
import pytest

from mmml_losses.datasets import AnnotationError, CocoMultiLabel, MissingDataError, Relabelled
from mmml_losses.datasets.labels.sample_labels import SampleLabels
from mmml_losses.datasets.wrappers import relabelled
from mmml_losses.datasets.wrappers.relabelled import read_label_list

CLASSES = ('cat', 'car', 'person')
KEYS = ('b.jpg', 'a.jpg', 'c, d.jpg', 'e.jpg')
TRUE = np.array([[1, 0, 1], [1, 1, 1], [0, 1, 0], [0, 0, 1]], dtype=np.int8)
SAMPLES = SampleLabels(CLASSES, KEYS, TRUE)
# In an order of its own; two lines begin with a space, as in the published files.
TEXT = 'a.jpg, 0 2\ne.jpg,2\nb.jpg, 2\nc, d.jpg,1\n'
LISTED = [[0, 0, 1], [1, 0, 1], [0, 1, 0], [0, 0, 1]]
# How many images of COCO's training set of 2014 have how many labels.
HISTOGRAM = {
    **{1: 16813, 2: 25053, 3: 16837, 4: 9830, 5: 5910, 6: 3364, 7: 1988, 8: 1076, 9: 598, 10: 315, 11: 164, 12: 75},
    **{13: 36, 14: 12, 15: 7, 16: 2, 18: 1},
}


def write(folder, text, name='list.txt'):
    content = text.encode() if isinstance(text, str) else text
    (folder / name).write_bytes(gzip.compress(content) if name.endswith('.gz') else content)
    return str(folder / name)


@pytest.mark.parametrize('name', ['list.txt', 'coco_train2014_0.4left.txt.gz'])
@pytest.mark.parametrize(
    'text', [TEXT, TEXT.rstrip(), TEXT.replace('\n', '\r\n'), TEXT.replace(',', ' ,').replace(', d', ', d') + '\n \n']
)
def test_images_are_found_by_their_names_in_any_order(tmp_path, name, text):
    text = text.replace('c , d', 'c, d')
    labels = read_label_list(write(tmp_path, text, name), SAMPLES)
    assert labels.dtype == np.int8
    assert labels.tolist() == LISTED


def test_an_image_may_keep_no_label(tmp_path):
    labels = read_label_list(write(tmp_path, TEXT.replace('e.jpg,2', 'e.jpg,')), SAMPLES)
    assert labels[3].tolist() == [0, 0, 0]


def test_what_the_dataset_does_not_know_stays_unknown(tmp_path):
    samples = SampleLabels(CLASSES, KEYS, np.where(TRUE == 0, np.int8(-1), TRUE))
    labels = read_label_list(write(tmp_path, TEXT), samples)
    assert np.array_equal(labels, np.where(TRUE == 0, -1, LISTED))


def test_folders_count_only_where_the_list_has_them(tmp_path):
    keys = ['x/b.jpg', 'x/a.jpg', 'y/c, d.jpg', 'e.jpg']
    assert read_label_list(write(tmp_path, TEXT), SampleLabels(CLASSES, keys, TRUE)).tolist() == LISTED
    keys = ['x/a.jpg', 'y/a.jpg', 'c.jpg', 'e.jpg']
    samples = SampleLabels(CLASSES, keys, TRUE)
    with pytest.raises(AnnotationError, match=r"list\.txt has no folders: .* 'x/a\.jpg' and 'y/a\.jpg' apart"):
        read_label_list(write(tmp_path, TEXT), samples)
    text = 'y/a.jpg,0 2\nx/a.jpg,2\nc.jpg,1\ne.jpg,2\n'
    assert read_label_list(write(tmp_path, text), samples).tolist() == LISTED


def test_an_image_that_the_dataset_repeats_has_its_labels_each_time(tmp_path):
    samples = SampleLabels(CLASSES, KEYS * 2, np.concatenate([TRUE, TRUE]))
    assert read_label_list(write(tmp_path, TEXT), samples).tolist() == LISTED * 2


@pytest.mark.parametrize(
    ('text', 'message'),
    [
        (TEXT + 'z.jpg,0\n', r", line 5: the dataset has no image 'z\.jpg'$"),
        ('y.jpg,0\n\n' + TEXT + 'z.jpg,0\n', r", line 1: the dataset has no image 'y\.jpg', the first of 2 such lines"),
        (TEXT + 'a.jpg,1\n', r", line 5: 'a\.jpg' is in line 1 already"),
        (TEXT.replace('0 2', '0 3'), ", line 1: class indices must be from 0 to 2, got '3'"),
        (TEXT.replace('0 2', '0 -1'), ", line 1: class indices must be from 0 to 2, got '-1'"),
        (TEXT.replace('0 2', '0 1.0'), ", line 1: class indices must be from 0 to 2, got '1.0'"),
        (TEXT.replace('0 2', '0 ²'), ", line 1: class indices must be from 0 to 2, got '²'"),
        (TEXT.replace('0 2', '2 0 2'), ", line 1: a class appears twice in '2 0 2'"),
        (TEXT.replace('e.jpg,2', 'e.jpg 2'), ", line 2: a line must be 'file name,class class', got 'e.jpg 2'"),
        (TEXT.replace('e.jpg,2', ', 2'), ", line 2: a line must be 'file name,class class', got ', 2'"),
        (
            TEXT.replace('b.jpg, 2', 'b.jpg, 1 2'),
            r", line 3: 'b\.jpg' has the class 1 \(car\) in the list and not in the dataset, the first of 1 such",
        ),
        (TEXT.replace('e.jpg,2\n', ''), r" does not fit the dataset: it lacks 1 of the 4 images, .* 'e\.jpg'$"),
        ('', r" does not fit the dataset: it lacks 4 of the 4 images, the first is 'b\.jpg'$"),
        (TEXT.encode('utf-16'), ', line 1: it must be text in UTF-8, got '),
        (TEXT.encode() + b'\xff.jpg,1\n', ', line 5: it must be text in UTF-8, got '),
    ],
)
def test_a_list_that_does_not_fit_is_rejected_with_the_place(tmp_path, text, message):
    with pytest.raises(AnnotationError, match=rf'list\.txt{message}'):
        read_label_list(write(tmp_path, text), SAMPLES)


def test_a_label_that_is_unknown_in_the_dataset_is_none_it_has(tmp_path):
    samples = SampleLabels(CLASSES, KEYS, np.where(TRUE == 1, np.int8(-1), TRUE))
    with pytest.raises(AnnotationError, match='the first of 5 such labels'):
        read_label_list(write(tmp_path, TEXT), samples)


def test_images_without_a_label_are_known_to_be_left_out(tmp_path):
    samples = SampleLabels(CLASSES, (*KEYS, 'f.jpg'), np.concatenate([TRUE, [[0, 0, 0]]]).astype(np.int8))
    with pytest.raises(AnnotationError, match=r"'f\.jpg'; none of them has a label: drop_empty=True leaves such"):
        read_label_list(write(tmp_path, TEXT), samples)


def test_broken_archives_are_named(tmp_path):
    whole = gzip.compress(TEXT.encode())
    flipped = bytes([*whole[:-12], whole[-12] ^ 255, *whole[-11:]])
    path = tmp_path / 'list.txt.gz'
    for content in (TEXT.encode(), whole[:-9], whole[:5], flipped):
        path.write_bytes(content)
        with pytest.raises(AnnotationError, match=r'list\.txt\.gz is not a gzip file, or a damaged one: '):
            read_label_list(path, SAMPLES)
    # Under the wrong name it is no text.
    (tmp_path / 'list.txt').write_bytes(whole)
    with pytest.raises(AnnotationError, match=r'list\.txt, line 1: it must be text in UTF-8'):
        read_label_list(tmp_path / 'list.txt', SAMPLES)
    with pytest.raises(MissingDataError, match=r'label file .*nothing\.txt does not exist'):
        read_label_list(tmp_path / 'nothing.txt', SAMPLES)


@pytest.mark.parametrize('name', ['list.txt', 'list.txt.gz'])
def test_what_would_fill_the_memory_is_not_unpacked(tmp_path, name, monkeypatch):
    monkeypatch.setattr(relabelled, 'LARGEST_TEXT', len(TEXT))
    assert read_label_list(write(tmp_path, TEXT, name), SAMPLES).tolist() == LISTED
    with pytest.raises(AnnotationError, match=r'must be a list of at most 39 bytes of text, got more'):
        read_label_list(write(tmp_path, TEXT + ' ' * 10**6, name), SAMPLES)


def test_a_dataset_takes_a_list_by_the_name_of_its_file(coco_root, tmp_path):
    inner = dict(
        type='mmml_losses.CocoMultiLabel',
        ann_file='instances.json',
        data_root=str(coco_root),
        data_prefix='train',
        drop_empty=True,
    )
    text = '000000000012.jpg,1\n000000000030.jpg,1\nCOCO_train2014_000000000005.jpg, 2\n'
    dataset = Relabelled(inner, write(tmp_path, text, 'coco_train2014_0.4left.txt.gz'))
    assert [dataset.get_data_info(idx)['gt_label'] for idx in range(3)] == [[2], [1], [1]]
    assert dataset.true_labels().sum(axis=1).tolist() == [2, 2, 1]
    with pytest.raises(AnnotationError, match='drop_empty=True leaves such images out'):
        Relabelled(dict(inner, drop_empty=False), write(tmp_path, text))
    reordered = CocoMultiLabel(
        'instances.json', str(coco_root), 'train', dict(classes=('car', 'cat', 'person')), drop_empty=True
    )
    with pytest.raises(AnnotationError, match=r'the class 1 \(cat\) in the list and not in the dataset'):
        Relabelled(reordered, write(tmp_path, text))


def coco_sized_samples(seed=0):
    """As many images with as many labels each as COCO has, with classes by chance."""
    generator = np.random.default_rng(seed)
    numbers = generator.permutation(np.repeat(list(HISTOGRAM), list(HISTOGRAM.values())))
    ranks = generator.random((len(numbers), 80), dtype=np.float32).argsort(axis=1)
    labels = (ranks < numbers[:, None]).astype(np.int8)
    names = [f'COCO_train2014_{number:012d}.jpg' for number in generator.permutation(581921)[: len(numbers)]]
    return SampleLabels(tuple(map(str, range(80))), names, labels), numbers


def list_text(samples, labels, order):
    """Return the exact form of the published files: a space makes the first index as wide as the last."""
    lines = []
    for row in order:
        classes = np.flatnonzero(labels[row]).tolist()
        space = ' ' * (classes[0] < 10 <= classes[-1])
        lines.append(f'{samples.keys[row]},{space}{" ".join(map(str, classes))}\n')
    return ''.join(lines)


def test_lists_of_the_size_of_coco_have_the_statistics_of_table_ii(tmp_path):
    samples, numbers = coco_sized_samples()
    assert (*samples.labels.shape, samples.labels.sum()) == (82081, 80, 241035)
    ranks = np.where(samples.labels == 1, samples.labels.cumsum(axis=1), 99)
    order = np.random.default_rng(1).permutation(len(numbers))
    # Samples, labels, and labels per image of "75 % labels left", "40 % labels left" and "single label".
    table = {
        '0.75left': (numbers // 2, 181422, 2.2),
        '0.4left': (numbers // 5, 96251, 1.2),
        'singlelabel': (0, 82081, 1),
    }
    for name, (kept, total, average) in table.items():
        left = ranks <= np.minimum(np.add(kept, 1), numbers)[:, None]
        path = write(tmp_path, list_text(samples, left, order), f'coco_train2014_{name}.txt.gz')
        labels = read_label_list(path, samples)
        assert np.array_equal(labels, left)
        assert labels.sum() == total
        assert round(labels.sum() / len(labels), 1) == average
