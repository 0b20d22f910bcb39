"""Compares what came out of a pipeline with what should have, record by record."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from eoskafka.audit.reader import Record, UndecidedError
from eoskafka.audit.result import Fault, Finding, Report, Tally

# The faults that this comparison looks for.
FAULTS = (Fault.LOST, Fault.DUPLICATED, Fault.ALTERED, Fault.UNEXPECTED)


def compare(
    inputs: Iterable[Record], outputs: Iterable[Record], expected: Callable[[Record], bytes | None]
) -> Report:
    """Compare outputs with `expected(input)`, matched by key; their order does not matter.

    A second output record of a key is a duplicate, whatever its value; a key that came out only
    with a wrong value is altered, not lost.

    Args:
        inputs: records with unique keys.
        outputs: what a `read_committed` reader found.
        expected: the value that should come out for an input record.

    Raises:
        UndecidedError: two input records have the same key, so outputs cannot be told apart.
    """
    unseen = _by_key(inputs)
    input_count = len(unseen)
    seen: dict[bytes | None, Record] = {}
    tally = Tally[Finding](FAULTS)
    output_count = 0
    for record in outputs:
        output_count += 1
        if (first := seen.get(record.key)) is not None:
            place = f"partition {first.partition}, offset {first.offset}"
            tally.add(Finding(Fault.DUPLICATED, record, f"came out before, at {place}"))
        elif (source := unseen.pop(record.key, None)) is None:
            tally.add(Finding(Fault.UNEXPECTED, record, "no input record has this key"))
        else:
            seen[record.key] = record
            if (right := expected(source)) != record.value:
                tally.add(
                    Finding(Fault.ALTERED, record, f"its value {record.value!r} is not {right!r}")
                )
    for source in unseen.values():
        tally.add(Finding(Fault.LOST, source, "it never came out"))
    return Report(input_count, output_count, tally.counts(), tuple(tally.named))


def _by_key(records: Iterable[Record]) -> dict[bytes | None, Record]:
    by_key: dict[bytes | None, Record] = {}
    for record in records:
        if (other := by_key.setdefault(record.key, record)) is not record:
            raise UndecidedError(
                f"two input records have the key {record.key!r} (partition {other.partition}, "
                f"offset {other.offset} and partition {record.partition}, offset {record.offset}): "
                "the comparison needs unique keys"
            )
    return by_key
