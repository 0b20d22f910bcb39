"""The values of a benchmark's records, as `load.py` writes them.

A value is a chain of 64-bit words in network byte order, cut off at the wanted length: its number
`n`, then `mix(n)`, `mix(n + STEP)`, `mix(n + 2*STEP)` and so on, modulo 2**64. So a reader knows
each byte of the value from its number alone, and any set of numbers 0..N-1 says what is missing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# A value begins with its number.
FEWEST_BYTES = 8

_STEP = 0x9E3779B97F4A7C15


def values(numbers: NDArray[np.uint64], length: int) -> NDArray[np.uint8]:
    """The values of these numbers, one row of `length` bytes for each."""
    words = np.empty((len(numbers), -(-length // 8)), dtype=np.uint64)
    words[:, 0] = numbers
    for word in range(1, words.shape[1]):
        step = np.uint64((word - 1) * _STEP % 2**64)
        words[:, word] = _mix(numbers + step)
    rows: NDArray[np.uint8] = words.astype(">u8").view(np.uint8)
    return rows[:, :length]


def numbers(rows: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """The number at the beginning of each row of bytes."""
    first = np.ascontiguousarray(rows[:, :FEWEST_BYTES])
    return first.view(np.dtype(">u8")).reshape(-1).astype(np.uint64)


def _mix(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finalizer of SplitMix64 (Steele, Lea, Flood 2014)."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: NDArray[np.uint64] = z ^ (z >> np.uint64(31))
    return mixed
