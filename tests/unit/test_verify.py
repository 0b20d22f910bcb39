"""Verifying topics of any size: what is planted is found, whatever fits into memory."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from eoskafka.audit import UndecidedError, verify
from eoskafka.audit.slices import Slice
from eoskafka.audit.spill import Spill
from eoskafka.audit.verify import By, Request, Verdict, Wrong
from eoskafka.cli import app
from eoskafka.errors import ConfigurationError
from eoskafka.groups import Connection
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka import TopicPartition

CLUSTER = Connection("b:9092", {})
IN, LATER, OUT = "in", "later", "out"
# So little that a dozen records need several buckets.
TINY = 6 * 37 * 8


@dataclass(frozen=True)
class Message:
    """As librdkafka's."""

    at: tuple[str, int, int]
    of: tuple[bytes | None, bytes | None]

    def topic(self) -> str:
        return self.at[0]

    def partition(self) -> int:
        return self.at[1]

    def offset(self) -> int:
        return self.at[2]

    def key(self) -> bytes | None:
        return self.of[0]

    def value(self) -> bytes | None:
        return self.of[1]


Records = Sequence[tuple[bytes | None, bytes | None]]


class Quiet:
    def begins(self, what: str, records: int) -> None: ...

    def read(self, records: int) -> None: ...


@pytest.fixture
def verdict_of(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Verdict]:
    """The verdict on these records: what must come out, what came out, what may have."""

    def run(inputs: Records, outputs: Records, later: Records = (), **request: object) -> Verdict:
        return judge(monkeypatch, inputs, outputs, later, **request)

    return run


def judge(
    monkeypatch: pytest.MonkeyPatch,
    inputs: Records,
    outputs: Records,
    later: Records = (),
    **request: object,
) -> Verdict:
    topics = {IN: inputs, LATER: later, OUT: outputs}
    parts = {
        name: [Slice(TopicPartition(name, 0), 0, len(records))] for name, records in topics.items()
    }

    def read(_: Connection, slices: Collection[Slice], take: Callable[..., None]) -> None:
        for each in slices:
            name = each.partition.topic
            messages = [Message((name, 0, n), record) for n, record in enumerate(topics[name])]
            for first in range(0, len(messages), 5):
                take(messages[first : first + 5])

    monkeypatch.setattr(verify, "input_slices", lambda *_: (parts[IN], parts[LATER]))
    monkeypatch.setattr(verify, "output_slices", lambda *_: parts[OUT])
    monkeypatch.setattr(verify, "read", read)
    return verify.verify(CLUSTER, Request([OUT], [IN], **request), Quiet())


def wrong(verdict: Verdict) -> dict[str, int]:
    return {fault.value: number for fault, number in verdict.faults.items() if number}


def numbered(numbers: Sequence[int], value: bytes = b"v") -> list[tuple[bytes, bytes]]:
    return [(b"key-%d" % n, value) for n in numbers]


def test_every_record_once_is_right_in_any_order(verdict_of: Callable[..., Verdict]) -> None:
    found = verdict_of(numbered(range(30)), numbered(range(29, -1, -1), b"other"))
    assert found.holds
    assert (found.inputs, found.later, found.outputs, found.ordered) == (30, 0, 30, 30)


def test_what_is_wrong_is_counted_and_named(verdict_of: Callable[..., Verdict]) -> None:
    found = verdict_of(numbered(range(10)), numbered([0, 1, 2, 3, 4, 5, 6, 8, 9, 3, 3, 77]))
    assert wrong(found) == {"lost": 1, "duplicated": 2, "unexpected": 1}
    assert sorted(map(str, found.examples)) == [
        "duplicated: out-0, offset 10",
        "lost: in-0, offset 7",
        "unexpected: out-0, offset 11",
    ]


def test_input_after_the_groups_offsets_may_have_come_out_once(
    verdict_of: Callable[..., Verdict],
) -> None:
    later = numbered([10, 11])
    assert verdict_of(numbered(range(10)), numbered(range(10)), later).holds
    assert verdict_of(numbered(range(10)), numbered(range(12)), later).holds
    found = verdict_of(numbered(range(10)), numbered([*range(12), 11]), later)
    assert wrong(found) == {"duplicated": 1}


def test_a_change_of_order_within_a_key_is_found(verdict_of: Callable[..., Verdict]) -> None:
    given = [(b"a", b"1"), (b"b", b"2"), (b"a", b"3"), (b"a", b"4"), (None, b"5"), (None, b"6")]
    made = [given[n] for n in (5, 1, 0, 3, 2, 4)]
    found = verdict_of(given, made, by=By.DIGEST)
    assert wrong(found) == {"reordered": 1}
    assert str(found.examples[0]) == "reordered: out-0, offset 4"
    assert found.ordered == 4
    assert verdict_of(given, made, by=By.DIGEST, ordered=False).holds


def test_records_of_the_same_value_are_counted(verdict_of: Callable[..., Verdict]) -> None:
    same = [(None, b"x")] * 3
    assert verdict_of(same, same, by=By.VALUE).holds
    assert wrong(verdict_of(same, same[:1], by=By.VALUE)) == {"lost": 2}
    assert wrong(verdict_of(same, [*same, *same[:1]], by=By.VALUE)) == {"duplicated": 1}
    assert wrong(verdict_of(same, [*same, (None, None)], by=By.VALUE)) == {"unexpected": 1}


def test_a_field_of_the_json_tells_records_apart(verdict_of: Callable[..., Verdict]) -> None:
    given = [(None, b'{"order": {"id": %d}, "n": 1}' % n) for n in range(5)]
    made = [(b"k", b'{"n":2,"order":{"id":%d}}' % n) for n in (0, 1, 2, 3, 3)]
    found = verdict_of(given, made, id_field="order.id")
    assert wrong(found) == {"lost": 1, "duplicated": 1}
    with pytest.raises(UndecidedError, match=r"in-0, offset 0: its value has no field order\.no"):
        verdict_of(given, made, id_field="order.no")


def test_a_record_without_a_key_has_no_id(verdict_of: Callable[..., Verdict]) -> None:
    with pytest.raises(UndecidedError, match="out-0, offset 1: it has no key"):
        verdict_of(numbered(range(2)), [*numbered([0]), (None, b"v")])


@given(
    inputs=st.lists(st.integers(0, 30), max_size=60),
    later=st.lists(st.integers(0, 30), max_size=20),
    outputs=st.lists(st.integers(0, 35), max_size=80),
)
@settings(max_examples=60, deadline=None)
def test_counts_are_those_of_a_comparison_in_memory(
    inputs: list[int], later: list[int], outputs: list[int]
) -> None:
    must, may, out = Counter(inputs), Counter(later), Counter(outputs)
    expected = Counter[Wrong]()
    for n in {*must, *may, *out}:
        expected[Wrong.LOST] += max(0, must[n] - out[n])
        surplus = max(0, out[n] - must[n] - may[n])
        expected[Wrong.DUPLICATED if must[n] + may[n] else Wrong.UNEXPECTED] += surplus
    with pytest.MonkeyPatch.context() as patch:
        found = judge(
            patch,
            numbered(inputs),
            numbered(outputs),
            numbered(later),
            ordered=False,
            memory=1 << 16,
        )
    assert found.faults == {fault: expected[fault] for fault in Wrong}


def test_records_need_not_fit_into_memory(tmp_path: Path) -> None:
    dtype = np.dtype([("id", "<u8"), ("n", "<i8")])
    with Spill(
        tmp_path, "s", dtype, "id", expected=10_000, memory=6 * dtype.itemsize * 1_000
    ) as spill:
        rng = np.random.default_rng(7)
        for first in range(0, 10_000, 500):
            entries = np.zeros(500, dtype=dtype)
            entries["id"] = rng.integers(0, 2**63, 500)
            entries["n"] = np.arange(first, first + 500)
            spill.add(entries)
        found = list(spill)
    assert len(found) == spill.buckets == 21
    assert sorted(np.concatenate(found)["n"]) == list(range(10_000))


def test_too_many_records_of_one_id_are_undecided(verdict_of: Callable[..., Verdict]) -> None:
    with pytest.raises(UndecidedError, match="give --memory, or tell them apart by something else"):
        verdict_of(numbered([1] * 50), [], memory=TINY)


def test_a_table_says_what_should_come_out(
    verdict_of: Callable[..., Verdict], tmp_path: Path
) -> None:
    table = tmp_path / "expected"
    table.mkdir()
    pq.write_table(pa.table({"value": ["a", "b", "c"], "more": [1, 2, 3]}), table / "1.parquet")
    made = [(b"k", b"a"), (b"k", b"c"), (None, b"d")]
    found = verdict_of([], made, expected=table, by=By.VALUE)
    assert wrong(found) == {"lost": 1, "unexpected": 1}
    assert "lost: expected row 1" in map(str, found.examples)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"amount": [1]}, "has neither a column key nor a column value, but amount"),
        ({"value": [1]}, "column value of .* is int64: cast it as the query does"),
    ],
    ids=str,
)
def test_a_table_that_cannot_be_compared_is_refused(
    columns: dict[str, list[int]], said: str, verdict_of: Callable[..., Verdict], tmp_path: Path
) -> None:
    table = tmp_path / "expected.parquet"
    pq.write_table(pa.table(columns), table)
    with pytest.raises(ConfigurationError, match=said):
        verdict_of([], [], expected=table, by=By.VALUE)
    with pytest.raises(ConfigurationError, match="cannot be read as Parquet"):
        verdict_of([], [], expected=tmp_path / "none.parquet", by=By.VALUE)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--output", "o"],
        ["--output", "o", "--input", "i", "--expected", "t"],
        ["--output", "o", "--input", "i", "--by", "name"],
        ["--output", "o", "--input", "i", "--input-from", "7"],
        ["--output", "o", "--input", "i", "--input-from", '{"i":{"0":"x"}}'],
        ["--input", "i"],
    ],
    ids=json.dumps,
)
def test_what_does_not_fit_together_is_a_usage_error(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        raise SystemExit(app.run(["verify", "--bootstrap-servers", "b:9092", *arguments]))
    assert ended.value.code == 2
