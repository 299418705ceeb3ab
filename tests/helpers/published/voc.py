"""VOC 2012 with four images, in its published format."""

from pathlib import Path

import cv2
import numpy as np

WIDTH, HEIGHT = 20, 10
# (class, difficult, box). Boxes count pixels from 1 and include the last one.
OBJECTS = {
    '2007_000027': [('sheep', 0, (1, 1, 5, 4)), ('aeroplane', 0, (1, 1, 10, 10)), ('sheep', 0, (1, 1, 10, 4))],
    # A bird that is difficult and one that is not; a bottle that is difficult only.
    '2008_000002': [('bird', 1, (1, 1, 20, 10)), ('bird', 0, (2, 2, 2, 2)), ('bottle', 1, (3, 3, 6, 7))],
    '2008_000003': [('person', 1, (1, 1, 2, 2))],
    # A box that leaves the image, with fractional sides as in a file of 2011.
    '2011_003353': [('person', 0, (11, 6, 45.70000076293945, 60))],
}


def object_2007(name, difficult, box) -> str:
    left, top, right, bottom = box
    return (
        f'\t<object>\n\t\t<name>{name}</name>\n\t\t<pose>Left</pose>\n\t\t<truncated>1</truncated>\n'
        f'\t\t<difficult>{difficult}</difficult>\n\t\t<bndbox>\n\t\t\t<xmin>{left}</xmin>\n\t\t\t<ymin>{top}</ymin>\n'
        f'\t\t\t<xmax>{right}</xmax>\n\t\t\t<ymax>{bottom}</ymax>\n\t\t</bndbox>\n\t</object>\n'
    )


def object_2012(name, difficult, box) -> str:
    """Return an object in another order of the elements. A person has actions, and a part with a name and a box."""
    left, top, right, bottom = box
    part = (
        '\t\t<part>\n\t\t\t<name>head</name>\n\t\t\t<bndbox>\n\t\t\t\t<xmin>1</xmin>\n\t\t\t\t<ymin>1</ymin>\n'
        '\t\t\t\t<xmax>2</xmax>\n\t\t\t\t<ymax>2</ymax>\n\t\t\t</bndbox>\n\t\t</part>\n'
        '\t\t<actions>\n\t\t\t<jumping>0</jumping>\n\t\t\t<other>1</other>\n\t\t</actions>\n'
    )
    return (
        f'\t<object>\n\t\t<bndbox>\n\t\t\t<xmax>{right}</xmax>\n\t\t\t<xmin>{left}</xmin>\n\t\t\t<ymax>{bottom}</ymax>\n'
        f'\t\t\t<ymin>{top}</ymin>\n\t\t</bndbox>\n\t\t<difficult>{difficult}</difficult>\n\t\t<name>{name}</name>\n'
        f'{part if name == "person" else ""}\t\t<occluded>0</occluded>\n\t\t<pose>Unspecified</pose>\n'
        '\t\t<truncated>0</truncated>\n\t</object>\n'
    )


def annotation(image_id: str, objects: list) -> str:
    write_object = object_2007 if image_id.startswith('2007') else object_2012
    return (
        f'<annotation>\n\t<folder>VOC2012</folder>\n\t<filename>{image_id}.jpg</filename>\n'
        '\t<source>\n\t\t<database>The VOC2008 Database</database>\n\t\t<annotation>PASCAL VOC2008</annotation>\n'
        '\t\t<image>flickr</image>\n\t</source>\n'
        f'\t<size>\n\t\t<width>{WIDTH}</width>\n\t\t<height>{HEIGHT}</height>\n\t\t<depth>3</depth>\n\t</size>\n'
        f'\t<segmented>0</segmented>\n{"".join(write_object(*thing) for thing in objects)}</annotation>\n'
    )


def write_voc(root: Path) -> Path:
    for folder in ('Annotations', 'ImageSets/Main', 'JPEGImages'):
        (root / folder).mkdir(parents=True)
    for image_id, objects in OBJECTS.items():
        (root / 'Annotations' / f'{image_id}.xml').write_text(annotation(image_id, objects))
        cv2.imwrite(str(root / 'JPEGImages' / f'{image_id}.jpg'), np.zeros((HEIGHT, WIDTH, 3), dtype=np.uint8))
    ids = list(OBJECTS)
    for split, chosen in dict(train=ids[:2], val=ids[2:], trainval=ids).items():
        (root / 'ImageSets' / 'Main' / f'{split}.txt').write_text('\n'.join(chosen) + '\n')
    # Next to the lists of images there is one for each class, with 0 if all its objects are difficult.
    (root / 'ImageSets' / 'Main' / 'bottle_train.txt').write_text('2007_000027 -1\n2008_000002  0\n')
    return root
