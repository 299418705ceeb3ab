# The import and the hooks with which a config of MMDetection uses this package.
custom_imports = dict(imports=['mmml_losses'], allow_failed_imports=False)
custom_hooks = [
    dict(type='mmml_losses.EpochSeedHook'),
    dict(type='mmml_losses.TrainingSetHook'),
    dict(type='mmml_losses.LabelSummaryHook'),
    # Stops a training whose head and loss do not fit, such as a dense head without use_sigmoid=True, before it starts.
    dict(type='mmml_losses.DetectorCheckHook'),
    # Starts a new classifier, also in a RoI head, at a probability of 0.01 through the link of its loss.
    dict(type='mmml_losses.ClassifierPriorHook'),
]
