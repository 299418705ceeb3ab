# ASL with the gradient of its focusing weights, as Focal has it in detectors.
_base_ = '../../../_base_/losses/asl_gradient.py'
