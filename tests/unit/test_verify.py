"""Verifying topics of any size: what is planted is found, whatever fits into memory."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from eoskafka.audit import Fault, UndecidedError, Verdict, proof, verify
from eoskafka.audit.request import By, Request
from eoskafka.audit.slices import Slice, Slices
from eoskafka.audit.spill import Spill
from eoskafka.audit.tables import Table
from eoskafka.brokers.connection import Connection
from eoskafka.cli import app
from eoskafka.cli.verify_report import lines_of
from eoskafka.dead_letters import PREFIX
from eoskafka.errors import ConfigurationError
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from kafka import TopicPartition

CLUSTER = Connection("b:9092", {})
IN, LATER, OUT, DEAD = "in", "later", "out", "dead"
# So little that eight records fill a bucket.
TINY = 2 * 6 * 37 * 8
INPUT, BY = ["--input", "i"], ["--by", "key"]


@dataclass(frozen=True)
class Message:
    """As librdkafka's."""

    at: tuple[str, int, int]
    of: tuple[bytes | None, bytes | None]
    says: list[tuple[str, bytes]] = field(default_factory=list)

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

    def headers(self) -> list[tuple[str, bytes]] | None:
        return self.says or None


Records = Sequence[tuple[bytes | None, bytes | None]]


class Quiet:
    def begins(self, what: str, records: int) -> None: ...

    def read(self, records: int) -> None: ...


def exit_code(*arguments: str) -> object:
    """Of the command with these arguments."""
    with pytest.raises(SystemExit) as ended:
        raise SystemExit(app.run(["verify", "--bootstrap-servers", "b:9092", *arguments]))
    return ended.value.code


@pytest.fixture
def verdict_of(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Verdict]:
    """The verdict on these records: what must come out, what came out, what may have."""

    def run(inputs: Records, outputs: Records, later: Records = (), **request: Any) -> Verdict:
        return judge(monkeypatch, inputs, outputs, later, **request)

    return run


def judge(
    monkeypatch: pytest.MonkeyPatch,
    inputs: Records,
    outputs: Records,
    later: Records = (),
    dead: Sequence[tuple[Any, ...]] = (),
    **request: Any,
) -> Verdict:
    """With dead letters of the records at these places: a topic, an offset in it, and a query."""
    topics = {IN: inputs, LATER: later, OUT: outputs, DEAD: [inputs[place[1]] for place in dead]}
    parts = {
        name: [Slice(TopicPartition(name, 0), 0, len(records))] for name, records in topics.items()
    }

    def read(_: Connection, slices: Collection[Slice], take: Callable[..., None]) -> None:
        for each in slices:
            name = each.partition.topic
            whole = [Message((name, 0, n), record) for n, record in enumerate(topics[name])]
            if name == DEAD:
                whole = [
                    Message(m.at, m.of, letter_of(*place))
                    for m, place in zip(whole, dead, strict=True)
                ]
            messages = whole[each.start : each.end]
            for first in range(0, len(messages), 5):
                take(messages[first : first + 5])

    slices = Slices(parts[IN], parts[LATER], [], [*parts[OUT], *parts[DEAD]], {})
    monkeypatch.setattr(verify, "look", lambda *_, **__: slices)
    monkeypatch.setattr(verify, "require_same_topics", lambda *_: None)
    monkeypatch.setattr(verify, "read", read)
    monkeypatch.setattr(proof, "read", read)
    wanted = {"by": By.KEY, "inputs": [IN], "dead_letters": [DEAD] if dead else (), **request}
    return verify.verify(CLUSTER, Request([OUT], **wanted), Quiet())


def letter_of(topic: str, offset: int, query: str = "") -> list[tuple[str, bytes]]:
    """The headers of a dead letter."""
    said = {"topic": topic, "partition": "0", "offset": str(offset)} if topic else {}
    said |= {"query": query} if query else {}
    return [(f"{PREFIX}{name}", text.encode()) for name, text in said.items()]


def wrong(verdict: Verdict) -> dict[str, int]:
    return {fault.value: number for fault, number in verdict.faults.items() if number}


def numbered(numbers: Sequence[int], value: bytes = b"v") -> list[tuple[bytes, bytes]]:
    return [(b"key-%d" % n, value) for n in numbers]


def test_every_record_once_is_right_in_any_order(verdict_of: Callable[..., Verdict]) -> None:
    found = verdict_of(numbered(range(30)), numbered(range(29, -1, -1), b"other"))
    assert found.holds
    assert (found.inputs, found.optional, found.outputs, found.ordered) == (30, 0, 30, 30)
    assert found.alike == 0


def test_an_input_record_is_in_the_output_or_a_dead_letter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    inputs = numbered(range(10))
    dead = [(IN, 3), (IN, 7), ("another query's", 5)]
    rest = [n for n in range(10) if n not in (3, 7)]
    found = judge(monkeypatch, inputs, numbered(rest), dead=dead)
    assert found.holds
    assert (found.inputs, found.outputs, found.dead_letters) == (10, 8, 2)
    (line,) = lines_of(found, False)
    assert line.startswith("exactly once: 10 in, 8 out, 2 dead letters, 0 lost, ")
    assert wrong(judge(monkeypatch, inputs, numbered(rest[:-1]), dead=dead)) == {"lost": 1}
    assert wrong(judge(monkeypatch, inputs, numbered([*rest, 3]), dead=dead)) == {"duplicated": 1}
    twice = [*dead, (IN, 3)]
    assert wrong(judge(monkeypatch, inputs, numbered(rest), dead=twice)) == {"duplicated": 1}


def test_the_dead_letter_of_another_query_hides_no_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs, dead = numbered(range(10)), [(IN, 3, "this"), (IN, 7, "that"), ("other", 5, "third")]
    rest = numbered([n for n in range(10) if n not in (3, 7)])
    with pytest.raises(UndecidedError, match=r"of several queries \('that', 'this'\)"):
        judge(monkeypatch, inputs, rest, dead=dead)
    found = judge(monkeypatch, inputs, rest, dead=dead, dead_letters_query="this")
    assert (wrong(found), found.dead_letters) == ({"lost": 1}, 1)
    rest += numbered([7])
    assert judge(monkeypatch, inputs, rest, dead=dead, dead_letters_query="this").is_exactly_once
    with pytest.raises(UndecidedError, match="'this' and one without a name"):
        judge(monkeypatch, inputs, rest, dead=[*dead[:1], (IN, 7)])
    assert judge(monkeypatch, inputs, rest, dead=[dead[0], dead[2]]).is_exactly_once


def test_a_dead_letter_without_an_id_is_known_by_its_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    inputs = [(None, b'{"id": %d}' % n if n % 5 else b"no JSON") for n in range(10)]
    rest = [record for record in inputs if record[1] != b"no JSON"]
    found = judge(monkeypatch, inputs, rest, dead=[(IN, 0), (IN, 5)], id_field="id")
    assert (found.holds, found.dead_letters) == (True, 2)
    found = judge(monkeypatch, inputs, rest, dead=[(IN, 5), (IN, 5)], id_field="id")
    assert wrong(found) == {"lost": 1, "duplicated": 1}


def test_a_record_that_is_no_dead_letter_is_undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UndecidedError, match="dead-0, offset 0: it has no headers"):
        judge(monkeypatch, numbered([1]), [], dead=[("", 0)])


def test_what_is_wrong_is_counted_and_named(verdict_of: Callable[..., Verdict]) -> None:
    found = verdict_of(numbered(range(10)), numbered([0, 1, 2, 3, 4, 5, 6, 8, 9, 3, 3, 77]))
    assert wrong(found) == {"lost": 1, "duplicated": 2, "unexpected": 1}
    assert sorted(map(str, found.examples)) == [
        "duplicated: out-0, offset 10, key 'key-3'",
        "lost: in-0, offset 7, key 'key-7'",
        "unexpected: out-0, offset 11, key 'key-77'",
    ]


def test_a_long_key_is_named_by_its_beginning(verdict_of: Callable[..., Verdict]) -> None:
    (lost,) = verdict_of([(b"\xff" + b"k" * 300, b"v")], []).examples
    assert lost.key == "\\xff" + "k" * 96 + "..."


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
    assert found.is_exactly_once
    assert str(found.examples[0]) == "reordered: out-0, offset 4, key 'a'"
    assert found.ordered == 4
    assert verdict_of(given, made, by=By.DIGEST, ordered=False).holds


def test_records_of_the_same_value_are_counted(verdict_of: Callable[..., Verdict]) -> None:
    same = [(None, b"x")] * 3
    assert verdict_of(same, same, by=By.VALUE).holds
    assert verdict_of(same, same, by=By.VALUE).alike == 3
    assert verdict_of(same, same, by=By.DIGEST).alike == 0
    assert wrong(verdict_of(same, same[:1], by=By.VALUE)) == {"lost": 2}
    assert wrong(verdict_of(same, [*same, *same[:1]], by=By.VALUE)) == {"duplicated": 1}
    assert wrong(verdict_of(same, [*same, (None, None)], by=By.VALUE)) == {"unexpected": 1}


# In the first case the one that must be out is lost, and in the second it is there twice.
@pytest.mark.parametrize(("must", "out"), [(1, 1), (1, 2), (2, 2)])
def test_an_equal_record_that_need_not_be_out_may_stand_in_for_a_lost_one(
    must: int, out: int, verdict_of: Callable[..., Verdict]
) -> None:
    same = (b"key", b"value")
    others = numbered(range(3))
    found = verdict_of(
        [*others, *[same] * must], [*others, *[same] * out], [same, *numbered([8])], by=By.DIGEST
    )
    assert (found.holds, found.alike) == (True, must)


def test_no_verdict_if_an_equal_record_may_stand_in_for_a_lost_one(
    verdict_of: Callable[..., Verdict],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    same = [(b"key", b"value")]
    found = verdict_of(same, same, same, by=By.DIGEST)
    monkeypatch.setattr("eoskafka.audit.verify.verify", lambda *_: found)
    command = ["--output", "o", "--group", "g", *INPUT]
    assert exit_code(*command, "--by", "digest") == 3
    assert "one of these could stand in for a lost one" in capsys.readouterr().err
    assert exit_code(*command, "--by", "digest", "--count-alike") == 0
    assert "exactly once: 2 in, of which 1 had to be out, 1 out, 0 lost" in capsys.readouterr().out
    assert exit_code(*command, *BY) == 3
    assert "(--by digest, --id-field)" in capsys.readouterr().err


def test_a_field_of_the_json_tells_records_apart(verdict_of: Callable[..., Verdict]) -> None:
    given = [(None, b'{"order": {"id": %d}, "n": 1}' % n) for n in range(5)]
    made = [(b"k", b'{"n":2,"order":{"id":%d}}' % n) for n in (0, 1, 2, 3, 3)]
    found = verdict_of(given, made, id_field="order.id")
    assert wrong(found) == {"lost": 1, "duplicated": 1}
    with pytest.raises(UndecidedError, match=r"in-0, offset 0: its value has no field order\.no"):
        verdict_of(given, made, id_field="order.no")
    with pytest.raises(UndecidedError, match=r"in-0, offset 0: its field id is null"):
        verdict_of([(None, b'{"id":null}')], made, id_field="id")
    with pytest.raises(UndecidedError, match=r"in-0, offset 0: its value has no field id"):
        verdict_of([(None, b"[" * 100_000)], made, id_field="id")


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
    # Without input that must be out there is a verdict only if something is wrong.
    assume(inputs or out - may)
    expected = Counter[Fault]()
    for n in {*must, *may, *out}:
        expected[Fault.LOST] += max(0, must[n] - out[n])
        surplus = max(0, out[n] - must[n] - may[n])
        expected[Fault.DUPLICATED if must[n] + may[n] else Fault.UNEXPECTED] += surplus
    with pytest.MonkeyPatch.context() as patch:
        found = judge(
            patch,
            numbered(inputs),
            numbered(outputs),
            numbered(later),
            ordered=False,
            # Some need a second split, and no id has so many records.
            memory=2 * 6 * 37 * 160,
        )
    assert found.faults == {fault: expected[fault] for fault in set(Fault) - {Fault.ALTERED}}


def test_records_need_not_fit_into_memory(tmp_path: Path) -> None:
    dtype = np.dtype([("id", "<u8"), ("n", "<i8")])
    memory = 6 * dtype.itemsize * 1_000
    # Expecting fewer, it has too few buckets, and splits them again.
    for expected in (10_000, 100):
        with Spill(tmp_path, dtype, "id", memory, "", expected=expected) as spill:
            rng = np.random.default_rng(7)
            for first in range(0, 10_000, 500):
                entries = np.zeros(500, dtype=dtype)
                entries["id"] = rng.integers(0, 2**63, 500)
                entries["n"] = np.arange(first, first + 500)
                spill.add(entries)
            assert list(tmp_path.iterdir()) == []
            found = list(spill)
        assert len(found) > 10
        assert max(map(len, found)) <= 1_000
        assert sorted(np.concatenate(found)["n"]) == list(range(10_000))


def test_too_many_records_of_one_id_are_undecided(verdict_of: Callable[..., Verdict]) -> None:
    with pytest.raises(UndecidedError, match="give --memory, or tell records apart by something"):
        verdict_of(numbered([1] * 50), [], memory=TINY)
    same_key = [(b"k", b"%d" % n) for n in range(50)]
    with pytest.raises(UndecidedError, match="they have one key; give --memory, or --no-order"):
        verdict_of(same_key, same_key, by=By.DIGEST, memory=TINY)
    assert verdict_of(same_key, same_key, by=By.DIGEST, memory=TINY, ordered=False).holds


def test_what_cannot_be_compared_is_undecided(
    verdict_of: Callable[..., Verdict], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(UndecidedError, match="there is nothing to compare"):
        verdict_of([], [], later=numbered(range(3)))
    with pytest.raises(UndecidedError, match="none of the 3 input records must be out"):
        verdict_of([], numbered(range(3)), later=numbered(range(3)))
    unexpected = verdict_of([], numbered([0, 7]), later=numbered(range(3)))
    assert wrong(unexpected) == {"unexpected": 1}
    with pytest.raises(ConfigurationError, match="there is no folder"):
        verdict_of(numbered(range(3)), [], folder=tmp_path / "none")
    usage = SimpleNamespace(free=10)
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage)
    with pytest.raises(UndecidedError, match="give another --folder"):
        verdict_of(numbered(range(3)), [])
    usage.free = 1 << 40

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Spill, "add", full)
    with pytest.raises(UndecidedError, match="No space left on device"):
        verdict_of(numbered(range(3)), [])


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


def test_a_delta_table_has_the_rows_of_its_newest_version(
    verdict_of: Callable[..., Verdict], tmp_path: Path
) -> None:
    table = tmp_path / "expected"
    rows = {"key": ["1", "2", None], "value": ["a", "b", "c"], "day": [1, 1, 2]}
    write_deltalake(table, pa.table(rows), partition_by=["day"])
    write_deltalake(table, pa.table({"key": ["4"], "value": ["d"], "day": [2]}), mode="append")
    DeltaTable(table).delete("value = 'b'")
    DeltaTable(table).optimize.compact()
    made = [(b"1", b"a"), (None, b"c"), (b"4", b"d")]
    found = verdict_of([], made, expected=table, by=By.DIGEST)
    assert (found.inputs, found.holds) == (3, True)
    found = verdict_of([], made[1:], expected=table, by=By.VALUE)
    assert wrong(found) == {"lost": 1}
    with pytest.raises(ConfigurationError, match=r"column day of .* is int64"):
        Table(table, ["day"])


def test_a_large_table_is_read_in_portions(tmp_path: Path) -> None:
    file = tmp_path / "expected.parquet"
    pq.write_table(pa.table({"value": [b"x" * 2_000] * 50_000}), file, compression="zstd")
    before = pa.total_allocated_bytes()
    portions = Table(file, ["value"]).portions()
    keys, values = next(portions)
    assert (set(keys), len(values)) == ({None}, 5_000)
    assert pa.total_allocated_bytes() - before < 60 << 20
    assert sum(len(each) for _, each in portions) == 45_000


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"amount": [1]}, "has no column value; its columns are amount"),
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
    (tmp_path / "delta" / "_delta_log").mkdir(parents=True)
    with pytest.raises(ConfigurationError, match="delta cannot be read as Delta"):
        verdict_of([], [], expected=tmp_path / "delta", by=By.VALUE)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--output", "o", *BY],
        ["--output", "o", *INPUT],
        ["--output", "o", *INPUT, "--by", "name"],
        ["--output", "o", *INPUT, *BY, "--id-field", "id"],
        ["--output", "o", *INPUT, *BY, "--expected", "t"],
        ["--output", "o", *BY, "--expected", "t", "--group", "g"],
        ["--output", "o", *BY, "--expected", "nowhere"],
        ["--output", "o", *INPUT, *BY, "--input-from", "7"],
        ["--output", "o", *INPUT, *BY, "--input-from", '{"i":{"0":"x"}}'],
        ["--output", "o", *INPUT, *BY, "--input-from", '{"i":{"0":Infinity}}'],
        ["--output", "o", *INPUT, *BY, "-X", "ssl.truststore.location=/ca.jks"],
        ["--output", "o", *INPUT, *BY, "--dead-letters-query", "q"],
        ["--output", "o,i", *INPUT, *BY],
        ["--output", ",", *INPUT, *BY],
        [*INPUT, *BY],
    ],
    ids=json.dumps,
)
def test_what_does_not_fit_together_is_a_usage_error(arguments: list[str]) -> None:
    assert exit_code(*arguments) == 2


def test_where_nothing_fits_the_choice_of_an_id_is_doubted(
    verdict_of: Callable[..., Verdict],
) -> None:
    none_fit = verdict_of(numbered(range(10)), numbered(range(10, 20)))
    assert any("no record in common" in line for line in lines_of(none_fit, order=True))
    one_fits = verdict_of(numbered(range(10)), numbered(range(9, 20)))
    assert not any("in common" in line for line in lines_of(one_fits, order=True))
