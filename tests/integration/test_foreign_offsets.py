"""Whose offsets and whose group it is: those of others are refused before the driver joins.

A driver that has lost its group stops, and says who has it.
"""

from __future__ import annotations

import json
import shutil
import time
import uuid
from pathlib import Path

import pytest
from eoskafka.cluster import LocalCluster
from harness import until
from kafka import KafkaProducer
from pyspark.sql import functions
from streams import QUERY_S, Job, Streams

FOREIGN = "A" * 22


@pytest.fixture
def job(streams: Streams) -> Job:
    """Two partitions, nothing in them."""
    return Job(streams, streams.topic(), streams.topic(), streams.group(), streams.checkpoint())


# ---- offsets of somebody else: refused before joining


def stabilized(cluster: LocalCluster, group: str) -> list[str]:
    """What the broker's log says of the group's generations."""
    log = cluster.brokers[0].log_file.read_text(encoding="utf-8")
    return [line for line in log.splitlines() if f" {group} " in line and "generation" in line]


REFUSED_STAMPS = {
    "no stamp": ("", "EOSKAFKA_OFFSET_WITHOUT_STAMP"),
    "another application's metadata": ("written by hand", "EOSKAFKA_OFFSET_WITHOUT_STAMP"),
    "another identity": (
        f"eoskafka:1:t:{FOREIGN}:{'B' * 22}:-:7",
        "EOSKAFKA_FOREIGN_STAMP",
    ),
    "another identity's source-only stamp": (
        f"eoskafka:1:s:{FOREIGN}:{'B' * 22}:-:-1",
        "EOSKAFKA_FOREIGN_STAMP",
    ),
}
NEWER_STAMPS = {
    "a newer version": f"eoskafka:2:t:{FOREIGN}:{'B' * 22}:-:7",
    "a newer version in another form": "eoskafka:2:whatever/comes;later",
    "an unknown scope": f"eoskafka:1:x:{FOREIGN}:{'B' * 22}:-:7",
}
OLDER_STAMP = f"eoskafka:0:t:{FOREIGN}:{'B' * 22}:-:7"


def assert_refused_untouched(job: Job, metadata: str, condition: str) -> None:
    """The query stops with the condition, was never in the group, and changed nothing."""
    job.send(0, 1, 2, 3)
    job.streams.set_offsets(job.group, job.input, {0: (1, metadata), 1: (1, metadata)})
    error = job.failure()
    assert f"[{condition}]" in error
    assert job.group in error
    assert job.streams.members(job.group) == []
    there = job.streams.committed(job.group, job.input)
    assert {p: (o.offset, o.metadata) for p, o in there.items()} == {
        0: (1, metadata),
        1: (1, metadata),
    }
    assert job.written() == []


@pytest.mark.parametrize("name", REFUSED_STAMPS)
def test_offsets_of_another_owner_are_refused(job: Job, name: str) -> None:
    assert_refused_untouched(job, *REFUSED_STAMPS[name])


def test_invariant_10_stamps_of_an_older_protocol_are_refused(job: Job) -> None:
    assert_refused_untouched(job, OLDER_STAMP, "EOSKAFKA_OLDER_PROTOCOL")


@pytest.mark.parametrize("name", NEWER_STAMPS)
def test_invariant_10_stamps_of_a_newer_protocol_are_refused(job: Job, name: str) -> None:
    assert_refused_untouched(job, NEWER_STAMPS[name], "EOSKAFKA_NEWER_PROTOCOL")


@pytest.mark.parametrize(
    ("old", "new", "condition"),
    [
        (":t:", ":e:", "EOSKAFKA_DECISIONS_GONE"),
        (":-:", ":another-cluster:", "EOSKAFKA_SINK_MOVED"),
    ],
    ids=["an epoch that nobody decided", "another sink cluster"],
)
def test_our_own_stamp_of_another_kind_is_refused(
    job: Job, old: str, new: str, condition: str
) -> None:
    job.send(0, 1)
    job.run()
    metadata = job.streams.committed(job.group, job.input)[0].metadata
    job.tamper({0: 1}, metadata.replace(old, new, 1))
    job.send(2, 3)
    assert f"[{condition}]" in job.failure()
    assert job.written() == [0, 1]


def test_a_second_query_on_a_group_does_not_disturb_its_owner(
    job: Job, cluster: LocalCluster
) -> None:
    job.send(0, 1)
    owner = job.streams.start(job.writer().trigger(processingTime="100 milliseconds"))
    until(lambda: job.written() == [0, 1], "the owner's first batch", QUERY_S)
    before = stabilized(cluster, job.group)
    assert before, "the broker's log tells nothing of generations"
    second = job._replace(checkpoint=job.streams.checkpoint())
    error = second.failure()
    assert "[EOSKAFKA_FOREIGN_STAMP]" in error
    assert job.group in error
    job.send(2, 3)
    until(lambda: job.written() == [0, 1, 2, 3], "the owner's next batch", QUERY_S)
    assert owner.isActive
    assert stabilized(cluster, job.group) == before
    assert job.streams.finished(owner, job.output) == [0, 1, 2, 3]


def test_another_group_than_the_checkpoints_is_refused(job: Job) -> None:
    job.send(0, 1)
    job.run()
    job.send(2)
    other = job.streams.group()
    error = job.failure(**{"kafka.group.id": other})
    assert "[EOSKAFKA_GROUP_CHANGED]" in error
    assert other in error
    assert job.group in error
    assert job.written() == [0, 1]


# ---- two drivers, and fenced producers


def test_invariant_8_a_driver_that_lost_its_group_stops_and_names_the_owner(job: Job) -> None:
    # A copy of the checkpoint has the same identity: the second start takes the group over.
    job.send(0, 1)
    job.run()
    first = job.streams.start(job.writer().trigger(processingTime="100 milliseconds"))
    job.send(2, 3)
    until(lambda: job.written() == [0, 1, 2, 3], "the first driver's batch", QUERY_S)
    until(lambda: sum(p.numInputRows for p in first.recentProgress) == 2, "its report", QUERY_S)
    copied = job._replace(checkpoint=job.streams.checkpoint())
    shutil.copytree(job.checkpoint, copied.checkpoint)
    # Within one application Spark would stop the first run of a query that it knows by this id.
    (copied.checkpoint / "metadata").write_text(json.dumps({"id": str(uuid.uuid4())}))
    (copied.checkpoint / ".metadata.crc").unlink(missing_ok=True)
    second = job.streams.start(copied.writer().trigger(processingTime="100 milliseconds"))
    until(lambda: not first.isActive, "the first driver's end", QUERY_S)
    error = str(first.exception())
    assert "[EOSKAFKA_FENCED_BY_" in error
    assert job.group in error
    assert "another driver has taken over" in error.lower()
    (owner,) = job.streams.members(job.group)
    assert owner in error
    job.send(4, 5)
    until(lambda: job.written() == [0, 1, 2, 3, 4, 5], "the second driver's batch", QUERY_S)
    assert second.isActive
    assert job.streams.finished(second, job.output) == [0, 1, 2, 3, 4, 5]


def test_invariant_8_a_fenced_attempt_fails_alone_and_the_query_goes_on(
    job: Job, tmp_path: Path
) -> None:
    reached, released = tmp_path / "reached", tmp_path / "released"
    reached_name, released_name = str(reached), str(released)

    def wait(value: bytearray) -> bytearray:
        Path(reached_name).touch()
        deadline = time.monotonic() + 60
        while not Path(released_name).exists():
            if time.monotonic() > deadline:
                raise TimeoutError("never released")
            time.sleep(0.05)
        return value

    job.send(0, 1, 2, 3)
    rows = job.streams.source(job.input, {"kafka.group.id": job.group, "slots": 1})
    waiting = rows.select("key", functions.udf(wait, "binary")("value").alias("value"))
    query = job.streams.start(job.streams.sink(waiting, job.output, job.checkpoint))
    until(reached.exists, "the first record in Python", QUERY_S)
    (transactional_id,) = (
        t.transactional_id
        for listed in job.streams.admin.list_transactions().values()
        for t in listed
        if f"-{job.group}-" in t.transactional_id
    )
    # What a later attempt on another executor does.
    fencing = KafkaProducer(
        bootstrap_servers=job.streams.servers, transactional_id=transactional_id
    )
    fencing.init_transactions()
    fencing.close()
    released.touch()
    assert query.awaitTermination(QUERY_S)
    assert query.exception() is None
    assert job.written() == [0, 1, 2, 3]
    assert job.offsets() == job.streams.ends(job.input)
    (batch,) = [p.sink.metrics for p in query.recentProgress if p.numInputRows > 0]
    assert (batch["transactionsCommitted"], batch["fencedAttempts"]) == ("1", "1")
