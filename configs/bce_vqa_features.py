# BCE on VQA v2 (Towards Calibrated Multi-label Deep Neural Networks, Section 5.1 and appendix): soft scores of 3,129
# answers from features of the question and of the image, see _base_/datasets/vqa_features.py. The paper fine-tunes
# LXMERT; here the product of the two kinds of features replaces it.
_base_ = [
    '_base_/models/fusion_features.py',
    '_base_/datasets/vqa_features.py',
    '_base_/schedules/features.py',
    '_base_/losses/bce.py',
    '_base_/default_runtime.py',
]

model = dict(head=dict(loss=_base_.loss))
custom_hooks = [*_base_.custom_hooks, dict(type='mmml_losses.FeatureStatisticsHook')]
