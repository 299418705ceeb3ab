# Open Images with 567 classes and one label per image: 1,742,125 images and labels (Hill and SPLC paper, Table II).
_base_ = 'open_images_567.py'

train_dataloader = dict(
    dataset=dict(_delete_=True, type='mmml_losses.SinglePositive', dataset=_base_.train_dataloader.dataset)
)
