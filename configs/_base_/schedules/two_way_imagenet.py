# Section 4.4 of the two-way paper: as in two_way_paper.py, but from scratch, over 90 epochs, from 0.1. The paper gives
# one learning rate; we take it for the classifier, too.
_base_ = 'two_way_paper.py'

optim_wrapper = dict(optimizer=dict(lr=0.1), paramwise_cfg=dict(_delete_=True))
train_cfg = dict(max_epochs=90)
