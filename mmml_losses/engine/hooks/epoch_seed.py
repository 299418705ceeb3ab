"""Randomness that a resumed training repeats."""

from __future__ import annotations

import random
from functools import partial

import numpy as np
import torch
from mmengine.dataset import worker_init_fn
from mmengine.dist import get_rank
from mmengine.hooks import Hook
from mmengine.logging import print_log
from mmengine.runner import Runner

from ...registry import HOOKS


@HOOKS.register_module()
class EpochSeedHook(Hook):
    """Makes the randomness of an epoch depend on the seed, the epoch and the rank alone.

    A Runner seeds its random number generators once, so a training resumed at epoch 5 would draw the augmentations of
    epoch 0 again. With this hook it draws those of epoch 5, and ends with the weights of an unbroken training. It also
    gives the loader's workers new numbers in each epoch; persistent workers keep theirs, and with them a resumed
    training is as good as an unbroken one, but not equal to it.
    """

    priority = 'VERY_HIGH'

    def before_train(self, runner: Runner) -> None:
        """Say it when workers outlive the epochs."""
        if runner.train_dataloader.persistent_workers:
            print_log(
                'persistent_workers is on: a resumed training will not repeat an unbroken one exactly',
                logger='current',
            )

    def before_train_epoch(self, runner: Runner) -> None:
        """Seed this process, and the workers that this epoch is about to start."""
        # SeedSequence keeps neighbouring seeds, epochs and ranks apart. MMEngine adds the number of the worker to the
        # seed, which must stay below 2**32.
        state = np.random.SeedSequence((runner.seed, runner.epoch, get_rank())).generate_state(1)
        seed = int(state[0]) // 2
        random.seed(seed)
        np.random.seed(seed)
        torch.manual_seed(seed)
        loader = runner.train_dataloader
        start = loader.worker_init_fn
        # Only MMEngine's own: a user's function of another kind stays.
        if isinstance(start, partial) and start.func is worker_init_fn:
            loader.worker_init_fn = partial(worker_init_fn, **{**start.keywords, 'seed': seed})
