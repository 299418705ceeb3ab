"""Every process draws the same labels: other hash seeds, ranks, numbers and kinds of workers."""

import json
import os
import subprocess
import sys
from pathlib import Path

from mmengine.dataset import ConcatDataset
from torch.utils.data import DataLoader

from mmml_losses.datasets import MissingLabels, PartialLabels, SinglePositive
from tests.helpers.toy import Chosen, many

ROOT = Path(__file__).resolve().parents[2]
# Two epochs of one of two processes, which meet in a file.
RANK = """
import json, sys
import torch.distributed
from mmengine.dataset import DefaultSampler
from torch.utils.data import DataLoader
from tests.test_datasets.test_label_wrapper_processes import build, rows_of

rank, meeting = int(sys.argv[1]), sys.argv[2]
torch.distributed.init_process_group('gloo', init_method=f'file://{meeting}', rank=rank, world_size=2)
dataset = build()
sampler = DefaultSampler(dataset, shuffle=True, seed=3)
found = []
for epoch in range(2):
    sampler.set_epoch(epoch)
    loader = DataLoader(dataset, batch_size=7, num_workers=rank, sampler=sampler, collate_fn=list)
    found.append(rows_of(loader))
torch.distributed.barrier()
torch.distributed.destroy_process_group()
print(json.dumps(found))
"""


def build():
    return PartialLabels(
        MissingLabels(ConcatDataset([SinglePositive(many(40)), Chosen(many(30, seed=1)), many(30, seed=2)]), 0.5), 0.7
    )


def rows_of(loader):
    """Return the labels of the items of a loader, by ``sample_idx``."""
    return {item['sample_idx']: item['gt_score'].tolist() for batch in loader for item in batch}


def expected_rows():
    return dict(enumerate(build().observed_labels().tolist()))


def test_two_ranks_with_hash_seeds_of_their_own(tmp_path):
    command = [sys.executable, '-c', RANK]
    processes = [
        subprocess.Popen(
            [*command, str(rank), str(tmp_path / 'meeting')],
            cwd=ROOT,
            env=os.environ | dict(PYTHONHASHSEED=str(100 + rank), OMP_NUM_THREADS='1'),
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        outputs = [process.communicate(timeout=120)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0, 0]
    ranks = [json.loads(output.splitlines()[-1]) for output in outputs]
    for epoch in range(2):
        first, second = (rank[epoch] for rank in ranks)
        assert first.keys() != ranks[0][1 - epoch].keys()
        assert {int(idx): row for idx, row in (first | second).items()} == expected_rows()


def test_workers_that_are_spawned():
    loader = DataLoader(build(), batch_size=8, num_workers=1, collate_fn=list, multiprocessing_context='spawn')
    assert rows_of(loader) == expected_rows()
