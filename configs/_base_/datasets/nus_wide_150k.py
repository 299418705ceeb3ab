# NUS-WIDE as the LASD paper splits it: 150,000 images drawn for training from both official lists together. Of the rest
# those that can still be downloaded are for testing; the paper has 60,260.
# data/nus_wide/
#   ImageList/TrainImagelist.txt, ImageList/TestImagelist.txt
#   Groundtruth/TrainTestLabels/Labels_airport_Train.txt, Labels_airport_Test.txt, ...
#   Flickr/actor/0001_2124494179.jpg, ...
_base_ = 'nus_wide.py'

split = dict(protocol='combined', data_prefix='Flickr', skip_missing=True, train_images=150_000, seed=0)

train_dataloader = dict(dataset=split)
val_dataloader = dict(dataset=split)
test_dataloader = dict(dataset=split)
