# NUS-WIDE as the LASD paper splits it: the official lists together, 150,000 images drawn for training. The rest of the
# images that are still there is for testing, 60,260 of the paper's.
# data/nus_wide/
#   ImageList/TrainImagelist.txt, ImageList/TestImagelist.txt
#   Groundtruth/TrainTestLabels/Labels_airport_Train.txt, Labels_airport_Test.txt, ...
#   Flickr/actor/0001_2124494179.jpg, ...
_base_ = 'nus_wide.py'

split = dict(protocol='combined', data_prefix='Flickr', skip_missing=True, train_images=150_000, seed=0)

train_dataloader = dict(dataset=split)
val_dataloader = dict(dataset=split)
test_dataloader = dict(dataset=split)
