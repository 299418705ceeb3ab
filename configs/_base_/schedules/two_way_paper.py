# Section 4.1 of the two-way paper: SGD, momentum 0.9, weight decay 1e-4, batches of 512, 40 epochs, a cosine from 0.01
# for the classifier and from 0.001 for all else. Its 4 GPUs have 128 samples each; on 4 GPUs set
# train_dataloader.batch_size=128, and on one that has no room for 512 also optim_wrapper.accumulative_counts=4.
# The rates are for two-way, a loss of order one per sample (Eq. 17). A loss with one value per label is added over the
# labels, as ASL's authors do, and averaged over the samples. As a mean over the labels it would hardly learn, see "The
# reduction of a recipe" in docs/experiments.md. The paper does not state the reduction of its baselines.
loss_reduction = 'batchmean'
optim_wrapper = dict(
    optimizer=dict(type='SGD', lr=0.001, momentum=0.9, weight_decay=1e-4),
    paramwise_cfg=dict(custom_keys={'head.fc': dict(lr_mult=10)}),  # not 'head', which is also in head.loss_module
)
param_scheduler = [dict(type='CosineAnnealingLR', by_epoch=True, convert_to_iter_based=True)]
train_cfg = dict(by_epoch=True, max_epochs=40, val_interval=1)
val_cfg = dict()
test_cfg = dict()
auto_scale_lr = dict(enable=False, base_batch_size=512)
