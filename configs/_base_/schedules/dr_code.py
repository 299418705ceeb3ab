# The DR authors' code (configs/{voc,coco}/LT_resnet50_pfc_DB.py), where it differs from dr_paper.py: a tenth of the
# rate after the 5th of 30 epochs (COCO-LT: 35), and the mean over the classes (parse_losses in apis/train.py).
_base_ = 'dr_paper.py'

loss_reduction = 'mean'
param_scheduler = [_base_.param_scheduler[0], dict(type='MultiStepLR', milestones=[5], gamma=0.1, by_epoch=True)]
train_cfg = dict(max_epochs=30)
