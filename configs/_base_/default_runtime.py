# Runtime settings that all classifiers share.
default_scope = 'mmpretrain'
custom_imports = dict(imports=['mmml_losses'], allow_failed_imports=False)

default_hooks = dict(
    timer=dict(type='IterTimerHook'),
    logger=dict(type='LoggerHook', interval=50),
    param_scheduler=dict(type='ParamSchedulerHook'),
    # Two, because the hook deletes before it writes: a training killed in between resumes from the other.
    checkpoint=dict(type='CheckpointHook', interval=1, max_keep_ckpts=2),
    sampler_seed=dict(type='DistSamplerSeedHook'),
    visualization=dict(type='VisualizationHook', enable=False),
)
custom_hooks = [
    dict(type='mmml_losses.EpochSeedHook'),
    dict(type='mmml_losses.TrainingSetHook'),
    dict(type='mmml_losses.LabelSummaryHook'),
]

env_cfg = dict(
    cudnn_benchmark=False,
    mp_cfg=dict(mp_start_method='fork', opencv_num_threads=0),
    dist_cfg=dict(backend='nccl'),
)

# Every logged value is a mean over the last iterations, also the parts of a sum of losses. Learning rates are not
# averaged.
log_processor = dict(mean_pattern=r'^(train/)?(?!(base_)?lr$)[^/]+$')

visualizer = dict(type='UniversalVisualizer', vis_backends=[dict(type='LocalVisBackend')])
log_level = 'INFO'
load_from = None
resume = False
randomness = dict(seed=0, deterministic=False)
