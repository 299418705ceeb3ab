# LL-R. The share counts the labels of all classes and anchors. 0.05 per cent more each epoch are 0.1 per cent on
# average over five epochs; the anchors of the boxes that `digits_50.py` hides have 0.09 per cent of these labels.
_base_ = '../../../_base_/losses/ll_r.py'

loss = dict(relative_increase=0.0005)
