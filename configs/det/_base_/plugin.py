# What a config of MMDetection needs to use this package.
custom_imports = dict(imports=['mmml_losses'], allow_failed_imports=False)
custom_hooks = [
    dict(type='mmml_losses.EpochSeedHook'),
    dict(type='mmml_losses.TrainingSetHook'),
    dict(type='mmml_losses.LabelSummaryHook'),
    # Stops before a training whose head and loss do not go together, such as a dense head without use_sigmoid=True.
    dict(type='mmml_losses.DetectorCheckHook'),
    # Lets a new classifier start at a probability of 0.01 through the link of its loss, also that of a RoI head.
    dict(type='mmml_losses.ClassifierPriorHook'),
]
