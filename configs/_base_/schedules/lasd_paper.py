# Section 6.3 of the LASD paper: the whole network for 10 epochs, in batches of 8 or 16, with a learning rate out of
# 1e-2, 1e-3, 1e-4 and 1e-5. The paper prints neither its choice nor the optimiser. Here are Adam, 16 and 1e-5 for all
# datasets. The code of EM, one of the methods it compares with, has Adam, too (train.py of SPML-AckTheUnknown): 16 and
# 1e-5 for COCO and NUS-WIDE, 8 and 1e-5 for VOC12, 8 and 1e-4 for CUB.
#
# The paper chooses hyper-parameters with 20% of the training set, which keeps its full labels. These configs train on
# the whole set, with the values that the paper chose, and evaluate the test set once, at the end. To choose other
# values: --hold-out 0.2 --cfg-options train_cfg.val_interval=1
loss_reduction = 'labelmean'  # Appendix A.2.2 divides by the labels; Adam without weight decay does not mind the scale
optim_wrapper = dict(optimizer=dict(type='Adam', lr=1e-5, weight_decay=0.0))
param_scheduler = []
train_cfg = dict(by_epoch=True, max_epochs=10, val_interval=10)
val_cfg = dict()
test_cfg = dict()
auto_scale_lr = dict(enable=False, base_batch_size=16)
