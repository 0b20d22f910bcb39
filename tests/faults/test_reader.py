"""What a reader says of stalls, by partition."""

from __future__ import annotations

import pytest

from faults.history import Output
from faults.reader import Reader


def test_a_stall_is_the_longest_silence_of_any_partition() -> None:
    reader = Reader("", "topic", 2)
    for moment, partition in [(1.0, 0), (1.1, 1), (2.0, 0), (3.0, 0), (6.0, 0), (7.0, 1)]:
        reader._note(Output(partition, 0, b"key", b"value"), moment)
    # Between the first two moments both; then one is silent, and what came before does not count.
    assert reader.longest_gap_s(0.9, 1.2) == pytest.approx(0.2)
    assert reader.longest_gap_s(1.5, 8.0) == pytest.approx(5.5)
    assert reader.longest_gap_s(6.5, 8.0) == pytest.approx(1.5)
    assert reader.has_all_since(5.9)
    assert not reader.has_all_since(6.0)
