"""Which records of a topic must, may or must not be in the output, when the log is looked at."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import nullcontext
from dataclasses import dataclass

import pytest
from eoskafka.audit import UndecidedError, slices
from eoskafka.audit.slices import Slice, Slices
from eoskafka.brokers.connection import Connection
from eoskafka.errors import ConfigurationError
from kafka import TopicPartition
from kafka.admin import OffsetSpec
from kafka.structs import OffsetAndMetadata

CLUSTER = Connection("b:9092", {})
PARTITION = TopicPartition("in", 0)


@dataclass
class Log:
    """One partition as brokers tell of it, growing with every look."""

    first: int = 0
    stable: int = 100
    reached: int | None = 100
    grows: int = 10
    epoch: int = 3

    def offsets(
        self, _: object, partitions: Collection[TopicPartition], spec: object, *how: str
    ) -> dict[TopicPartition, int]:
        if spec is OffsetSpec.EARLIEST:
            return dict.fromkeys(partitions, self.first)
        self.stable += self.grows
        return dict.fromkeys(partitions, self.stable)

    def ends(
        self, _: object, partitions: Collection[TopicPartition], isolation: str
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        self.epoch += 1
        offsets = self.offsets(_, partitions, OffsetSpec.LATEST)
        return offsets, dict.fromkeys(partitions, self.epoch)

    def committed(self, *_: object) -> dict[TopicPartition, OffsetAndMetadata]:
        return {} if self.reached is None else {PARTITION: OffsetAndMetadata(self.reached, "", -1)}


def looked(
    monkeypatch: pytest.MonkeyPatch,
    log: Log,
    group: str = "g",
    starts: int | None = None,
    answers: Mapping[str, Callable[..., str]] | None = None,
) -> Slices:
    """What is looked at in a topic whose output is itself."""
    monkeypatch.setattr(Connection, "admin", lambda _: nullcontext())
    monkeypatch.setattr(slices, "topic_ids", lambda *_: {PARTITION: "id"})
    monkeypatch.setattr(slices, "log_offsets", log.offsets)
    monkeypatch.setattr(slices, "log_ends", log.ends)
    monkeypatch.setattr(slices, "committed", log.committed)
    for name in ("disagreement_on_ids", "former_leader"):
        monkeypatch.setattr(slices, name, (answers or {}).get(name, lambda *_: ""))
    monkeypatch.setattr(slices, "_refuse_compacted", lambda *_: None)
    given = {} if starts is None else {PARTITION: starts}
    return slices.look(
        CLUSTER,
        inputs=["in"],
        outputs=["in"],
        group=group,
        input_starts=given,
        output_starts={PARTITION: -2},
        wait_s=0,
    )


def spans(found: list[Slice]) -> list[tuple[int, int]]:
    return [(each.start, each.end) for each in found]


def test_what_comes_between_two_looks_is_optional_input(monkeypatch: pytest.MonkeyPatch) -> None:
    found = looked(monkeypatch, Log())
    (_, made), (_, given) = spans(found.outputs)[0], spans(found.later)[0]
    assert spans(found.must) == [(0, 100)]
    # Each look at an end finds ten records more: what had come out by then was there to be read.
    assert 100 < made < given
    found = looked(monkeypatch, Log(), group="")
    assert spans(found.must) == [(0, 110)]
    assert spans(found.later)[0][1] > spans(found.outputs)[0][1]


def test_input_before_the_start_is_optional_too(monkeypatch: pytest.MonkeyPatch) -> None:
    found = looked(monkeypatch, Log(first=5, grows=0), starts=40)
    assert (spans(found.earlier), spans(found.must)) == ([(5, 40)], [(40, 100)])


@pytest.mark.parametrize(
    ("log", "starts", "said"),
    [
        (Log(reached=None), None, "group g has no offset of in-0, which has records"),
        (Log(reached=500), None, "group g stands at 500 in in-0, whose log has 0 to"),
        (Log(first=7), None, "the log of in-0 begins at 7: what was before is gone"),
        (Log(first=7), 3, "records of in-0 from 3 on are gone: its log begins at 7"),
    ],
)
def test_what_is_gone_or_of_another_group_is_undecided(
    log: Log, starts: int | None, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UndecidedError, match=said):
        looked(monkeypatch, log, starts=starts)


@pytest.mark.parametrize("starts", [10_000, -1])
def test_a_start_outside_the_log_is_refused(starts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match=f"--input-from has {starts} for in-0, which ends"):
        looked(monkeypatch, Log(), starts=starts)


@pytest.mark.parametrize("asked", ["disagreement_on_ids", "former_leader"])
def test_what_a_broker_says_that_is_cut_off_is_undecided(
    asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        given: list[tuple[object, ...]] = []

        def problem(*arguments: object) -> str:
            given.append(arguments)
            return "a broker is cut off"

        with pytest.raises(UndecidedError, match="which records the topics have: a broker is cut"):
            looked(patch, Log(), answers={asked: problem})
    # The lowest leader epoch of the two that have named the end of the output.
    of_ids = (CLUSTER, {PARTITION: "id"}, {"in"})
    assert given == [of_ids if asked == "disagreement_on_ids" else (CLUSTER, {PARTITION: 5})]
