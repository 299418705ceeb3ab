# LASD without consistency (LASD paper, Eq. 6) with the values for VOC12 (Table 4); the values for the other datasets
# are in lasd_coco_single.py, lasd_nus_single.py and lasd_cub_single.py. Positives per image are estimated during
# training; the paper takes them from the full labels (expected_positives).
loss = dict(type='mmml_losses.LASDLoss', positive_leverage=0.1, threshold=0.9, gamma_positive=0.0, gamma_negative=4.0)
