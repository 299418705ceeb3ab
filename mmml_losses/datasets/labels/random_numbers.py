"""Reproducible random numbers, determined by seed, stream name, sample name and class index alone."""

import json
from collections.abc import Sequence
from hashlib import blake2b

import numpy as np


def uniform_numbers(
    seed: int, stream: str, keys: Sequence[str], rows: np.ndarray, columns: np.ndarray | int
) -> np.ndarray:
    """Return a uniform random number in [0, 1) for each pair of a sample and a class.

    The number depends on the seed, the stream, the name of the sample and the class index alone. It is equal in every
    process, for any order or subset of samples, and with every version of Python and NumPy, because only integers are
    hashed and mixed.

    Args:
        seed: Any integer.
        stream: Name of an independent sequence of numbers; with one seed, two streams differ.
        keys: Names of the samples.
        rows: Sample of each number, as a position in ``keys``.
        columns: Class index of each number; broadcast with ``rows``.

    Returns:
        float64 array with the broadcast shape of ``rows`` and ``columns``.
    """
    secret = blake2b(json.dumps([int(seed), stream]).encode(), digest_size=16).digest()
    names = [blake2b(key.encode('utf-8', 'surrogateescape'), digest_size=8, key=secret).digest() for key in keys]
    starts = np.frombuffer(b''.join(names), dtype='<u8').astype(np.uint64)
    # The sequence of the generator SplitMix64, which starts at the hash of the name: a number for each class.
    steps = np.asarray(columns).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed = _mix(starts[rows] + steps)
    # As many bits as a double has for the fraction.
    return (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _mix(bits: np.ndarray) -> np.ndarray:
    """Hash uint64 integers in place and return them; each bit of the result depends on all bits of the input."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        bits ^= bits >> np.uint64(shift)
        bits *= np.uint64(factor)
    bits ^= bits >> np.uint64(31)
    return bits
