# Transfer of two_way_imagenet.py to Stanford Cars (Two-way Multi-Label Loss, Section 4.4 and Table 8): a linear
# classifier on the frozen backbone. 8,144 training and 8,041 test images, read by MMPretrain. How the classifier is
# trained is ours: softmax and the schedule of Section 4.1.
# data/Stanford_Cars/
#   cars_annos.mat, car_ims/; or else
#   devkit/cars_train_annos.mat, devkit/cars_test_annos_withlabels.mat, cars_train/, cars_test/
_base_ = [
    '_base_/models/resnet50_frozen.py',
    '_base_/datasets/imagenet_transfer.py',
    '_base_/schedules/two_way_paper.py',
    '_base_/losses/softmax.py',
    '_base_/default_runtime.py',
]

num_classes = 196
data_preprocessor = dict(num_classes=num_classes)
model = dict(head=dict(num_classes=num_classes, loss=_base_.loss))

dataset = dict(type='StanfordCars', data_root='data/Stanford_Cars')
train_dataloader = dict(dataset=dict(**dataset, split='train'))
val_dataloader = dict(dataset=dict(**dataset, split='test'))
test_dataloader = val_dataloader
