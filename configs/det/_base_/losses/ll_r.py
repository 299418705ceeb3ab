# LL-R. The share is one of all classes of all anchors: 0.05 per cent more each epoch make 0.2 by the last of five, about
# as many as the anchors of the boxes that `digits_50.py` hides.
_base_ = '../../../_base_/losses/ll_r.py'

loss = dict(relative_increase=0.0005)
