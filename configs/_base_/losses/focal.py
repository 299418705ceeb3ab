# gamma 2, as the two-way (Section 4.3), LASD (FAN, Appendix A.2.2) and Hill (Section III-E) papers take it; no alpha.
loss = dict(type='mmml_losses.FocalLoss', gamma=2.0)
