# EPR (LASD paper, Appendix A.2.2) with the positives per image of COCO (Table 1). On VOC12 they are 1.46, on NUS 1.89,
# on CUB 31.4. The regulariser is added as in its authors' code; the formula of the appendix is reading='paper'.
loss = dict(type='mmml_losses.EPRLoss', expected_positives=2.94, regularizer_weight=1.0)
