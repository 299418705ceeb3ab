"""The nine datasets of one label per image that the two-way paper transfers to, with a few images, as released."""

from pathlib import Path

import cv2
import numpy as np
from scipy.io import savemat

IMAGE = np.full((40, 30, 3), 90, dtype=np.uint8)


def write_transfer(root: Path) -> None:
    """Write all nine below ``root``, each in the folder that its config names."""
    write_aircraft(root / 'fgvc-aircraft-2013b')
    write_caltech101(root / 'caltech-101')
    write_cars(root / 'Stanford_Cars')
    write_cub(root / 'CUB_200_2011')
    write_dtd(root / 'dtd')
    write_flowers102(root / 'Flowers102')
    write_food101(root / 'food-101')
    write_pets(root / 'Oxford-IIIT_Pets')
    write_sun397(root / 'SUN397')


def write_files(root: Path, texts: dict[str, str], images: list[str]) -> None:
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    for name in images:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(root / name), IMAGE)


def write_aircraft(root: Path) -> None:
    texts = {
        'data/images_variant_trainval.txt': '1025794 707-320\n1340192 Yak-42\n',
        'data/images_variant_test.txt': '1514522 F-16A/B\n0063950 Cessna 172\n',
    }
    write_files(root, texts, [f'data/images/{name}.jpg' for name in ('1025794', '1340192', '1514522', '0063950')])


def write_caltech101(root: Path) -> None:
    texts = {
        'meta/train.txt': 'accordion/image_0001.jpg 0\nyin_yang/image_0002.jpg 101\n',
        'meta/test.txt': 'accordion/image_0003.jpg 0\n',
    }
    names = ('accordion/image_0001', 'yin_yang/image_0002', 'accordion/image_0003')
    write_files(root, texts, [f'101_ObjectCategories/{name}.jpg' for name in names])


def struct_array(**columns: list) -> np.ndarray:
    """Return an array of MATLAB structs."""
    rows = np.empty((1, len(next(iter(columns.values())))), dtype=[(name, object) for name in columns])
    for name, values in columns.items():
        rows[name][0] = values
    return rows


def write_cars(root: Path) -> None:
    """Write the release in two archives and a development kit."""
    (root / 'devkit').mkdir(parents=True)
    box = dict(bbox_x1=[1, 1], bbox_y1=[1, 1], bbox_x2=[9, 9], bbox_y2=[9, 9])
    for split, name, labels in (('train', 'annos', [14, 196]), ('test', 'annos_withlabels', [1, 2])):
        files = ['00001.jpg', '00002.jpg']
        rows = struct_array(**box, **{'class': labels}, fname=files)
        savemat(root / f'devkit/cars_{split}_{name}.mat', dict(annotations=rows))
        write_files(root, {}, [f'cars_{split}/{file}' for file in files])


def write_cub(root: Path) -> None:
    """Write the class labels of CUB-200-2011, next to the attributes of its other reader."""
    albatross, warbler = '001.Black_footed_Albatross/a', '200.Common_Yellowthroat/b'
    texts = {
        'images.txt': f'1 {albatross}_0046.jpg\n2 {albatross}_0009.jpg\n3 {warbler}_0055.jpg\n',
        'image_class_labels.txt': '1 1\n2 1\n3 200\n',
        'train_test_split.txt': '1 0\n2 1\n3 1\n',
    }
    write_files(root, texts, [f'images/{name}' for name in (f'{albatross}_0046.jpg', f'{albatross}_0009.jpg')])
    write_files(root, {}, [f'images/{warbler}_0055.jpg'])


def write_dtd(root: Path) -> None:
    names = ['banded/banded_0002.jpg', 'zigzagged/zigzagged_0004.jpg', 'banded/banded_0005.jpg', 'woven/woven_1.jpg']
    (root / 'imdb').mkdir(parents=True)
    cells = np.array([names], dtype=object)
    images = dict(id=[[1, 2, 3, 4]], name=cells, **{'class': [[1, 47, 1, 45]], 'set': [[1, 2, 3, 3]]})
    savemat(root / 'imdb' / 'imdb.mat', dict(images=images))
    write_files(root, {}, [f'images/{name}' for name in names])


def write_flowers102(root: Path) -> None:
    root.mkdir(parents=True)
    savemat(root / 'imagelabels.mat', dict(labels=[[77, 102, 1, 1, 5, 6]]))
    savemat(root / 'setid.mat', dict(trnid=[[1, 2]], valid=[[3, 4]], tstid=[[5, 6]]))
    write_files(root, {}, [f'jpg/image_{number:05d}.jpg' for number in range(1, 7)])


def write_food101(root: Path) -> None:
    texts = {'meta/train.txt': 'apple_pie/1005649\nwaffles/101\n', 'meta/test.txt': 'apple_pie/1011328\n'}
    names = ('apple_pie/1005649', 'waffles/101', 'apple_pie/1011328')
    write_files(root, texts, [f'images/{name}.jpg' for name in names])


def write_pets(root: Path) -> None:
    texts = {
        'annotations/trainval.txt': 'Abyssinian_100 1 1 1\nyorkshire_terrier_1 37 2 25\n',
        'annotations/test.txt': 'Abyssinian_201 1 1 1\n',
    }
    names = ('Abyssinian_100', 'yorkshire_terrier_1', 'Abyssinian_201')
    write_files(root, texts, [f'images/{name}.jpg' for name in names])


def write_sun397(root: Path) -> None:
    """Write SUN397, in which some files are no JPEG although their names end so."""
    texts = {
        'Partitions/Training_01.txt': '/a/abbey/sun_a.jpg\n/y/youth_hostel/sun_b.jpg\n',
        'Partitions/Testing_01.txt': '/a/apartment_building/outdoor/sun_c.jpg\n',
    }
    images = ['SUN397/a/abbey/sun_a.jpg', 'SUN397/a/apartment_building/outdoor/sun_c.jpg']
    write_files(root, texts, images)
    path = root / 'SUN397/y/youth_hostel/sun_b.jpg'
    path.parent.mkdir(parents=True)
    path.write_bytes(cv2.imencode('.gif', IMAGE)[1].tobytes())
