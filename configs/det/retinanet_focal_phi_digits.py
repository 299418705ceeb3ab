# RetinaNet with Focal on digit scenes, trained as without phi. Scores are the probabilities that phi recovers from its
# logits.
_base_ = 'retinanet_focal_digits.py'

model = dict(bbox_head=dict(loss_cls=dict(link='phi')))
