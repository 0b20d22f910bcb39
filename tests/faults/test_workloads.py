"""What must come out of a workload, of the records that went in."""

from __future__ import annotations

import pytest
from eoskafka.audit import Record

from faults.workloads import WORKLOADS


def records(*values: bytes) -> list[Record]:
    return [Record(0, offset, b"key", value) for offset, value in enumerate(values)]


@pytest.mark.parametrize(
    ("workload", "expected"),
    [
        ("deduplication", [(b"0", b"0!"), (b"1", b"1!"), (b"2'", b"2!")]),
        ("join of two streams", [(b"0'", b"0!"), (b"2", b"2!")]),
        ("aggregation", [(b"0'", b"0!"), (b"2", b"2!")]),
    ],
)
def test_a_pair_has_one_output_and_a_record_without_partner_only_where_none_is_needed(
    workload: str, expected: list[tuple[bytes, bytes]]
) -> None:
    inputs = records(b"0", b"0'", b"1", b"2'", b"2")
    found = [
        (record.value, value)
        for record in WORKLOADS[workload].effective(inputs)
        for _, value in WORKLOADS[workload].expected(record)[0]
    ]
    assert found == expected


def test_without_pairs_each_record_has_an_output() -> None:
    inputs = records(b"0", b"1")
    assert list(WORKLOADS["task scope"].effective(inputs)) == inputs
