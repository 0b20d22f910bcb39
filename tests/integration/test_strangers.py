"""Consumers of other applications, and drivers of a former version, in a query's group."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from eoskafka import offsets
from eoskafka.checkpoints import Checkpoint
from eoskafka.errors import OffsetsError
from harness import Application, Flow, Query, until
from harness.strangers import Stranger, stranger
from streams import Streams, kv

RECORDS = 400
PYTHON = pytest.param("python", marks=pytest.mark.slow)
CLASSIC = pytest.param("classic", marks=pytest.mark.slow)
EXCLUSIVE = pytest.param("exclusive", marks=pytest.mark.slow)
KINDS = ("classic", "consumer", "console", "python")
OWNERSHIPS = ["exclusive", "shared"]
OFTEN: dict[str, Any] = {"interval": "100 milliseconds"}
# The least that brokers allow by default.
SOON = "session.timeout.ms=6000"
FORMER = {
    "exclusive": "org.apache.kafka.clients.consumer.RangeAssignor",
    "shared": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
}


def work_for(query: Query, flow: Flow, seconds: float) -> None:
    """Let the query have batches for so long, and at least three."""
    deadline = time.monotonic() + seconds
    wanted = query.status().batches + 3
    while time.monotonic() < deadline or query.status().batches < wanted:
        flow.produce(RECORDS)
        query.wait_batches(query.status().batches + 1)


def end(flow: Flow, query: Query) -> None:
    """Let the query finish, stop it, and compare what it has written."""
    flow.wait_committed()
    assert query.stop().error is None
    flow.assert_exactly_once()


@pytest.mark.parametrize("kind", [CLASSIC, "consumer", PYTHON])
@pytest.mark.parametrize("ownership", [EXCLUSIVE, "shared"])
def test_a_consumer_of_another_application_is_refused_and_the_owner_is_not_disturbed(
    application: Application, flow: Flow, tmp_path: Path, kind: str, ownership: str
) -> None:
    query = flow.start(application, ownership=ownership, **OFTEN)
    flow.produce(RECORDS)
    query.wait_batches(1)
    owner = flow.owner()
    with stranger(kind, flow.servers, flow.input, flow.group, tmp_path / "log") as other:
        other.wait_refused()
        work_for(query, flow, 0)
        assert flow.members() == {owner}
        assert (other.partitions(), other.read()) == (0, 0)
    end(flow, query)


@pytest.mark.slow
@pytest.mark.parametrize("ownership", OWNERSHIPS)
def test_four_kinds_of_consumers_try_for_a_minute(
    application: Application, flow: Flow, tmp_path: Path, ownership: str
) -> None:
    query = flow.start(application, ownership=ownership, **OFTEN)
    flow.produce(RECORDS)
    query.wait_batches(1)
    with ExitStack() as block:
        others = {
            kind: block.enter_context(
                stranger(kind, flow.servers, flow.input, flow.group, tmp_path / kind)
            )
            for kind in KINDS
        }
        work_for(query, flow, 60)
        refusals = {kind: other.refusals() for kind, other in others.items()}
        assert min(refusals.values()) > 10, refusals
        got = {kind: (other.partitions(), other.read()) for kind, other in others.items()}
        assert got == dict.fromkeys(KINDS, (0, 0))
    end(flow, query)


@pytest.mark.parametrize("ownership", OWNERSHIPS)
def test_a_driver_does_not_start_beside_a_consumer_of_another_application(
    streams: Streams, tmp_path: Path, ownership: str
) -> None:
    topic, output, group = streams.topic(records=20), streams.topic(), streams.group()
    # An offset of its own would be found first.
    settings = ["client.id=another-application", "enable.auto.commit=false"]
    servers = streams.servers
    with stranger("classic", servers, topic, group, tmp_path / "log", *settings) as other:
        other.wait_given()
        rows = kv(streams.source(topic, {"kafka.group.id": group, "ownership": ownership}))
        error = streams.failure(streams.sink(rows, output))
        assert f"[EOSKAFKA_FOREIGN_MEMBER] Group '{group}' has another member" in error, error
        assert "another-application" in error
        assert other.partitions() > 0
    assert streams.values(output) == []


# ---- a group of the consumer protocol, which brokers let everybody into


def missing(flow: Flow) -> dict[str, int]:
    """By partition, the offset of the first input record that is not in the output."""
    written = {record.key for record in flow.outputs()}
    firsts = {str(partition): end for partition, end in flow.ends().items()}
    for record in reversed(flow.inputs()):
        if record.key not in written:
            firsts[str(record.partition)] = record.offset
    return firsts


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["consumer", "classic"])
def test_offsets_of_a_consumer_that_got_into_a_group_are_not_believed(
    application: Application, flow: Flow, tmp_path: Path, kind: str
) -> None:
    how: dict[str, Any] = {"ownership": "shared", "kafka.group.protocol": "consumer"}
    query = flow.start(application, **how, **OFTEN)
    flow.produce(RECORDS)
    query.wait_batches(1)
    log = tmp_path / "log"
    # A client of the other protocol has no session timeout of its own.
    session = [SOON] if kind == "classic" else []
    with stranger(kind, flow.servers, flow.input, flow.group, log, *session) as other:
        other.wait_given()
        until(lambda: "is no driver of it: " in application.text(), "a warning", 30)
        flow.produce(RECORDS)
        until(lambda: other.read() > 0, "records that the stranger has taken", 30)
        # Its client commits every five seconds, and leaves the group when it is closed.
        until(lambda: flow.committed() == flow.ends(), "the stranger's offsets", 60)
        other.leave()
    error = query.wait_end().error
    assert "[EOSKAFKA_OFFSET_WITHOUT_STAMP]" in str(error), error
    until(lambda: not flow.members(), "an empty group", 60)

    given = (flow.servers, str(flow.checkpoint))
    with pytest.raises(OffsetsError, match="Another driver of the group may have gone further"):
        offsets.adopt(*given)
    offsets.adopt(*given, at=json.dumps({flow.input: missing(flow)}))
    flow.start(application, **how).wait_done()
    flow.assert_exactly_once()


# ---- an upgrade


@contextmanager
def former_driver(flow: Flow, log: Path, ownership: str, *settings: str) -> Iterator[Stranger]:
    """A driver of the version whose assignors have Kafka's names, as brokers see it."""
    assignor = f"partition.assignment.strategy={FORMER[ownership]}"
    with stranger(
        "classic",
        *(flow.servers, flow.input, flow.group, log),
        *(assignor, "enable.auto.commit=false", *settings),
    ) as former:
        former.wait_given()
        yield former


def own_place(flow: Flow, ownership: str) -> list[str]:
    """The settings that make a former run's member of this query's driver."""
    identity = Checkpoint(str(flow.checkpoint)).identity()
    assert identity is not None
    suffix = "driver" if ownership == "exclusive" else "shared-0"
    return [
        f"group.instance.id={identity.instance_id}",
        f"client.id=eoskafka-{identity.checkpoint_id}-{suffix}",
    ]


@pytest.mark.parametrize("ownership", OWNERSHIPS)
def test_a_driver_takes_the_place_of_a_former_version_that_was_killed(
    application: Application, flow: Flow, tmp_path: Path, ownership: str
) -> None:
    flow.produce(RECORDS)
    flow.start(application, ownership=ownership).wait_done()
    flow.produce(RECORDS)
    with former_driver(flow, tmp_path / "log", ownership, *own_place(flow, ownership)) as former:
        former.kill()
        flow.start(application, ownership=ownership).wait_done(40)
    assert "A former version's place in group" in application.text()
    flow.assert_exactly_once()


@pytest.mark.parametrize("ownership", OWNERSHIPS)
def test_a_driver_takes_the_place_of_a_former_version_that_runs(
    application: Application, flow: Flow, tmp_path: Path, ownership: str
) -> None:
    flow.produce(RECORDS)
    flow.start(application, ownership=ownership).wait_done()
    with former_driver(flow, tmp_path / "log", ownership, *own_place(flow, ownership)) as former:
        query = flow.start(application, ownership=ownership, **OFTEN)
        flow.produce(RECORDS)
        flow.wait_committed()
        refused = "InconsistentGroupProtocolException"
        until(lambda: former.wait_refused() == refused, refused, 30)
        work_for(query, flow, 0)
        end(flow, query)


@pytest.mark.slow
def test_a_driver_joins_beside_a_driver_of_a_former_version(
    application: Application, flow: Flow, tmp_path: Path
) -> None:
    name = f"client.id=eoskafka-{'f' * 22}-shared-0"
    with former_driver(flow, tmp_path / "log", "shared", name, SOON) as former:
        query = flow.start(application, ownership="shared", **OFTEN)
        until(lambda: former.partitions() == 1, "a partition that the former driver gave up", 60)
        assert "has drivers of a former version" in application.text()
        flow.produce(RECORDS)
        query.wait_batches(1)
        former.kill()
        flow.wait_committed()
        # Whoever starts now has a name in common with this driver only.
        end(flow, query)
