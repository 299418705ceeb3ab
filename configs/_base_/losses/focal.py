# gamma 2, as the two-way (Section 4.3) and LASD (FAN, Appendix A.2.2) papers take it; no alpha. Hill's authors have
# focal_detached.py, and the SPA paper has focal_asymmetric.py.
loss = dict(type='mmml_losses.FocalLoss', gamma=2.0)
