"""The audit's comparison finds what is planted, and names it."""

from __future__ import annotations

import pytest
from eoskafka.audit import Fault, Record, Report, UndecidedError, compare
from eoskafka.audit.result import NAMED_PER_FAULT


def expected(record: Record) -> bytes:
    return b"<" + (record.value or b"") + b">"


INPUTS = [Record(n % 3, n // 3, b"key-%d" % n, b"value-%d" % n) for n in range(30)]
# The transaction markers between them make output offsets sparse.
OUTPUTS = [Record(n % 3, 2 * n, r.key, expected(r)) for n, r in enumerate(INPUTS)]


def audit(outputs: list[Record]) -> Report:
    return compare(INPUTS, outputs, expected)


def faults(report: Report) -> dict[str, int]:
    return {fault.value: count for fault, count in report.faults.items() if count}


def test_every_record_once_is_exactly_once_in_any_order() -> None:
    report = audit(list(reversed(OUTPUTS)))
    assert report.is_exactly_once
    assert (report.inputs, report.outputs, report.findings) == (30, 30, ())


def test_a_lost_record_is_named_with_its_place_in_the_input() -> None:
    report = audit(OUTPUTS[:7] + OUTPUTS[8:])
    assert faults(report) == {"lost": 1}
    assert report.findings[0].record == INPUTS[7]
    assert "key 'key-7' (input partition 1, offset 2)" in str(report.findings[0])
    assert not report.is_exactly_once


def test_a_duplicate_is_named_with_both_places() -> None:
    again = Record(2, 99, *OUTPUTS[7][2:])
    report = audit([*OUTPUTS, again])
    assert faults(report) == {"duplicated": 1}
    assert str(report.findings[0]) == (
        "duplicated: key 'key-7' (output partition 2, offset 99): "
        "came out before, at partition 1, offset 14"
    )


def test_an_altered_value_is_not_also_lost() -> None:
    report = audit([*OUTPUTS[:-1], OUTPUTS[-1]._replace(value=b"<other>")])
    assert faults(report) == {"altered": 1}
    assert "b'<other>' is not b'<value-29>'" in str(report.findings[0])


def test_a_null_in_place_of_a_value_is_an_altered_value() -> None:
    assert faults(audit([*OUTPUTS[:-1], OUTPUTS[-1]._replace(value=None)])) == {"altered": 1}


def test_an_unexpected_record_is_named() -> None:
    report = audit([*OUTPUTS, Record(0, 77, b"stranger", b"<>"), Record(0, 78, None, b"<>")])
    assert faults(report) == {"unexpected": 2}
    assert "key 'stranger' (output partition 0, offset 77)" in str(report.findings[0])
    assert "key None (output partition 0, offset 78)" in str(report.findings[1])


def test_a_replayed_batch_with_a_hole_is_counted_whole_and_named_in_part() -> None:
    report = audit(OUTPUTS[:20] + OUTPUTS[10:20])
    assert faults(report) == {"lost": 10, "duplicated": 10}
    assert report.outputs == 30
    assert len(report.findings) == 2 * NAMED_PER_FAULT
    assert {finding.fault for finding in report.findings} == {Fault.LOST, Fault.DUPLICATED}


def test_input_keys_that_are_not_unique_cannot_be_decided() -> None:
    with pytest.raises(
        UndecidedError, match=r"key-1.*partition 1, offset 0.*partition 2, offset 9"
    ):
        compare([*INPUTS, Record(2, 9, b"key-1", b"")], OUTPUTS, expected)
