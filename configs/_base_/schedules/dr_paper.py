# Section 4.1 of the DR paper: SGD, momentum 0.9, weight decay 1e-4, batches of 32, 3e-4 for VOC-LT (COCO-LT: 1e-4), and
# a warm-up over 500 iterations from a third of that. For all else the paper refers to the configurations of the DB loss
# (its reference 35; configs/*/LT_resnet50_pfc_DB.py of that code): 8 epochs of the class-aware sampler, a tenth of the
# rate after the 5th and the 7th, and gradients clipped at a norm of 35. The DR authors' own code has other epochs and
# means in place of sums: dr_code.py.
# Eq. 5 and 6 add up samples and classes. So all losses of this recipe are sums, also those based on BCE, whose
# reduction the paper does not state.
loss_reduction = 'sum'
optim_wrapper = dict(
    optimizer=dict(type='SGD', lr=3e-4, momentum=0.9, weight_decay=1e-4),
    clip_grad=dict(max_norm=35, norm_type=2),
)
param_scheduler = [
    dict(type='LinearLR', start_factor=1 / 3, by_epoch=False, begin=0, end=500),
    dict(type='MultiStepLR', milestones=[5, 7], gamma=0.1, by_epoch=True),
]
train_cfg = dict(by_epoch=True, max_epochs=8, val_interval=1)
val_cfg = dict()
test_cfg = dict()
auto_scale_lr = dict(enable=False, base_batch_size=32)
