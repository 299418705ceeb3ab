"""Resume a training, or take up a checkpoint, safely."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlparse

import torch
from mmengine.config import Config
from mmengine.runner import Runner, find_latest_checkpoint

from ..hosts.checkpoints import check_checkpoint
from ..hosts.loss_places import warn_of_other_loss
from ..utils.errors import UsageError
from . import running


def safe_checkpoint(path: str, cfg: Config, *, resume: bool = False) -> str:
    """Check a checkpoint before MMEngine opens it, and return the local file to open.

    A file behind a URL is downloaded first: MMEngine would unpickle it without protection.

    Args:
        path: A file or an http(s) address.
        cfg: The config it is used with; a warning says when it was trained with another loss.
        resume: Whether the training goes on from it.
    """
    scheme = urlparse(path).scheme
    if scheme in ('http', 'https'):
        path = _download(path)
    elif '://' in path:
        raise UsageError(f'checkpoint {path} must be a local file or an http(s) address: no other kind can be checked')
    warn_of_other_loss(check_checkpoint(path, resume=resume), cfg)
    return path


def _download(url: str) -> str:
    file = Path(torch.hub.get_dir(), 'checkpoints', Path(urlparse(url).path).name)
    if not file.is_file():
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            torch.hub.download_url_to_file(url, str(file))  # it appears when it is complete
        except OSError as error:
            raise UsageError(f'checkpoint {url} could not be downloaded: {error}') from None
    return str(file)


def train(cfg: Config) -> Runner:
    """Train, from the checkpoint that the config names or, where it asks to resume and names none, from the latest."""
    checkpoint = cfg.get('load_from')
    if cfg.get('resume') and checkpoint is None:
        checkpoint = find_latest_checkpoint(cfg.work_dir)
    if checkpoint is not None:
        cfg.load_from = safe_checkpoint(checkpoint, cfg, resume=cfg.get('resume', False))
    runner = running.build_runner(cfg)
    runner.train()
    return runner
