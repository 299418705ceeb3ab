"""Work in batches: on several threads, with progress, and with a file from which an interrupted run goes on."""

from __future__ import annotations

import os
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar

import numpy as np

from ....utils.files import replacing

Batch = TypeVar('Batch')
Log = Callable[[str], None]

FORMAT = 'mmml_losses.retrieval_checkpoint/2'
SECONDS_BETWEEN_SAVES = 30.0
SECONDS_BETWEEN_LINES = 15.0


def in_order(
    work: Callable[[Batch], np.ndarray], batches: Sequence[Batch], results: list[np.ndarray], num_workers: int
) -> Iterator[int]:
    """Apply ``work`` on several threads to the batches that have no result yet, and append theirs in order.

    Args:
        work: What to do with a batch.
        batches: All batches.
        results: Those of the first batches. It is what decides which batch is next, so an interrupt between any two
            steps neither loses a finished batch nor counts one twice.
        num_workers: Number of threads.

    Yields:
        The index of each batch when its result is there.
    """
    start = len(results)
    if num_workers == 1:
        for index in range(start, len(batches)):
            results.append(work(batches[index]))
            yield index
        return
    futures: list[Future] = []
    with ThreadPoolExecutor(num_workers) as pool:
        try:
            for index in range(start, len(batches)):
                # Few batches wait at a time: one that has started is finished even if the run is stopped.
                for batch in batches[start + len(futures) : index + 2 * num_workers]:
                    futures.append(pool.submit(work, batch))
                results.append(futures[index - start].result())
                yield index
        finally:
            pool.shutdown(cancel_futures=True)
            for future in futures[len(results) - start :]:
                if future.cancelled() or future.exception() is not None:
                    break
                results.append(future.result())


def digest_of(arrays: Sequence[np.ndarray], settings: Sequence) -> str:
    """A short text that differs when the data or the settings do."""
    digest = sha256(repr(tuple(settings)).encode())
    for array in arrays:
        digest.update(repr((array.shape, array.dtype.str)).encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


class Checkpoint:
    """Results of finished batches by stage, in memory and, if there is a path, in a file.

    Args:
        path: An ``.npz`` file, read if it exists; None to keep nothing.
        digest: What the results belong to; a file that belongs to something else is refused.
    """

    def __init__(self, path: str | os.PathLike | None, digest: str):
        self.path = None if path is None else Path(path)
        self.digest = digest
        self.stages: dict[str, list[np.ndarray]] = {}
        self._last_save = time.monotonic()
        if self.path is not None and self.path.exists():
            self._load()

    def results(self, stage: str) -> list[np.ndarray]:
        """Results of the finished batches of a stage, to which those of the next ones are to be appended."""
        return self.stages.setdefault(stage, [])

    def save_now_and_then(self) -> None:
        """Write the file if that was not done lately."""
        if time.monotonic() - self._last_save >= SECONDS_BETWEEN_SAVES:
            self.save()

    def save(self) -> None:
        """Write the file, whole or not at all."""
        self._last_save = time.monotonic()
        if self.path is None:
            return
        arrays = {}
        for stage, results in self.stages.items():
            if not results:
                continue
            arrays[f'{stage}/results'] = np.concatenate(results)
            arrays[f'{stage}/lengths'] = np.array([len(result) for result in results])
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(self.path) as temporary, open(temporary, 'wb') as file:
            np.savez(file, format=np.array(FORMAT), digest=np.array(self.digest), **arrays)

    def remove(self) -> None:
        """Remove the file: a finished evaluation needs none."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)

    def _load(self) -> None:
        try:
            with open(self.path, 'rb') as file:
                content = np.load(file, allow_pickle=False)
                if isinstance(content, np.ndarray):
                    raise ValueError('it holds a single array')
                arrays = dict(content)
            if arrays.pop('format') != FORMAT:
                raise ValueError(f"its format is not '{FORMAT}'")
            digest = arrays.pop('digest')
            stages = {}
            for stage in {name.split('/')[0] for name in arrays}:
                ends = np.cumsum(arrays[f'{stage}/lengths'])
                stages[stage] = np.split(arrays[f'{stage}/results'], ends[:-1])
        except (ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise ValueError(f"checkpoint_file must be a checkpoint, got '{self.path}': {error}") from error
        if digest != self.digest:
            raise ValueError(
                f"checkpoint_file '{self.path}' belongs to other scores, labels or settings: remove it or name another"
            )
        self.stages = stages


class Progress:
    """Tell how far the work is: by a bar if asked for and tqdm is there, else by a line to ``log`` now and then."""

    def __init__(self, total: int, bar: bool, log: Log | None):
        self.total, self.done, self.log = total, 0, log
        self._start = self._last_line = time.monotonic()
        self._bar = None
        if bar and find_spec('tqdm') is not None:
            from tqdm import tqdm

            self._bar = tqdm(total=total, unit=' queries', unit_scale=True)

    def update(self, amount: int) -> None:
        """Count queries as done."""
        self.done += amount
        now = time.monotonic()
        if self._bar is not None:
            self._bar.update(amount)
        elif self.log is not None and now - self._last_line >= SECONDS_BETWEEN_LINES:
            self._last_line = now
            self.log(f'{self.done:,} of {self.total:,} queries done in {now - self._start:.0f} s')

    def close(self) -> None:
        """Leave the bar as it stands."""
        if self._bar is not None:
            self._bar.close()


class Batches:
    """Runs batches of one stage after another and keeps their results.

    Args:
        checkpoint: Where results go; batches that it already has are not run again.
        num_workers: Number of threads.
        bar: Whether to draw a progress bar.
        log: Takes lines about the progress where there is no bar.
    """

    def __init__(self, checkpoint: Checkpoint, num_workers: int, bar: bool, log: Log | None):
        self.checkpoint, self.num_workers, self.bar, self.log = checkpoint, num_workers, bar, log

    def run(
        self, stage: str, work: Callable[[Batch], np.ndarray], batches: Sequence[Batch], sizes: Sequence[int]
    ) -> None:
        """Run the batches of a stage that are not finished yet; ``sizes`` are their numbers of queries."""
        results = self.checkpoint.results(stage)
        if results and self.log is not None:
            self.log(f'going on after {sum(sizes[: len(results)]):,} of {sum(sizes):,} queries')
        progress = Progress(sum(sizes), self.bar, self.log)
        try:
            progress.update(sum(sizes[: len(results)]))
            with closing(in_order(work, batches, results, self.num_workers)) as finished:
                for index in finished:
                    self.checkpoint.save_now_and_then()
                    progress.update(sizes[index])
        finally:
            progress.close()

    def results(self, stage: str) -> list[np.ndarray]:
        """Results of the finished batches of a stage."""
        return self.checkpoint.results(stage)
