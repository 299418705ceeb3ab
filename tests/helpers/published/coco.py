"""Annotations of four images in COCO's format."""

# Categories out of order and with gaps, as in COCO; the classes are cat, car, person in the order of the ids.
CATEGORIES = [dict(id=90, name='person'), dict(id=3, name='cat'), dict(id=17, name='car')]
# File names of both years: image 9 has no annotation, image 5 shows one class twice, image 30 a class only as a crowd.
IMAGES = [
    dict(id=9, file_name='COCO_train2014_000000000009.jpg'),
    dict(id=5, file_name='COCO_train2014_000000000005.jpg'),
    dict(id=30, file_name='000000000030.jpg'),
    dict(id=12, file_name='000000000012.jpg'),
]
LABELS = [(5, 90, 0), (5, 3, 0), (5, 90, 0), (30, 17, 0), (30, 3, 1), (12, 17, 1)]


def coco_content() -> dict:
    annotations = [
        dict(id=i, image_id=image_id, category_id=category_id, iscrowd=crowd, bbox=[0, 0, 4, 4], area=16)
        for i, (image_id, category_id, crowd) in enumerate(LABELS, start=1)
    ]
    return dict(images=IMAGES, annotations=annotations, categories=CATEGORIES)
