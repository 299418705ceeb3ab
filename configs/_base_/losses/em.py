# EM, compared in the LASD paper (Table 2), which prints no value: alpha 0.2 is that of its authors for VOC12 (train.py
# of SPML-AckTheUnknown). For COCO and NUS-WIDE they have 0.1, for CUB 0.01.
loss = dict(type='mmml_losses.EMLoss', alpha=0.2)
