"""`eoskafka verify` on real topics: planted faults, open transactions, a query that goes on."""

from __future__ import annotations

import io
import json
import threading
import uuid
from collections.abc import Iterator
from contextlib import closing, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from eoskafka import offsets, stamps
from eoskafka.brokers.topics import topic_ids
from eoskafka.cli import app
from eoskafka.cluster import LocalCluster
from eoskafka.errors import CheckpointError
from harness import until
from harness.versions import needs_named_sources
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.structs import OffsetAndMetadata
from sessions import settings
from streams import QUERY_S, Streams, kv

PARTITIONS, RECORDS = 3, 300


class Topics(NamedTuple):
    servers: str
    input: str
    output: str
    group: str


@pytest.fixture
def topics(cluster: LocalCluster) -> Topics:
    name = uuid.uuid4().hex
    found = Topics(cluster.bootstrap_servers, f"in-{name}", f"out-{name}", f"group-{name}")
    with closing(KafkaAdminClient(bootstrap_servers=found.servers)) as admin:
        admin.create_topics([NewTopic(t, PARTITIONS, 1) for t in (found.input, found.output)])
    with closing(KafkaProducer(bootstrap_servers=found.servers)) as producer:
        for n in range(RECORDS):
            producer.send(found.input, key=b"key-%d" % (n % 50), value=value(n), partition=n % 3)
    return found


@pytest.fixture
def copier(topics: Topics) -> Iterator[KafkaProducer]:
    with closing(
        KafkaProducer(bootstrap_servers=topics.servers, transactional_id=f"t-{topics.output}")
    ) as producer:
        producer.init_transactions()
        yield producer


def value(n: int) -> bytes:
    return json.dumps({"id": n, "text": "é" * (n % 7)}).encode()


def copy(copier: KafkaProducer, topics: Topics, numbers: range | list[int]) -> None:
    """Write what a query would make of these records; the transaction stays open."""
    copier.begin_transaction()
    for n in numbers:
        copier.send(topics.output, key=b"key-%d" % (n % 50), value=value(n), partition=n % 3)
    copier.flush()


def reached(topics: Topics, records: int, metadata: str = "") -> None:
    """Commit that a group has read so many records."""
    with closing(
        KafkaConsumer(bootstrap_servers=topics.servers, group_id=topics.group)
    ) as consumer:
        consumer.commit(
            {
                TopicPartition(topics.input, p): OffsetAndMetadata(
                    records // PARTITIONS, metadata, -1
                )
                for p in range(PARTITIONS)
            }
        )


def run(topics: Topics, *more: str, wait_s: int = 20) -> tuple[int, dict[str, Any], str]:
    """The exit code, what it says as JSON, and its messages."""
    command = [
        *("verify", "--format", "json", "--wait", str(wait_s)),
        *("--bootstrap-servers", topics.servers),
        *("--input", topics.input, "--output", topics.output, *more),
    ]
    out, messages = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(messages), pytest.raises(SystemExit) as ended:
        raise SystemExit(app.run(command))
    assert isinstance(ended.value.code, int)
    verdict = json.loads(out.getvalue()) if out.getvalue() else {}
    return ended.value.code, verdict, messages.getvalue()


def test_a_right_copy_with_aborted_attempts_is_exactly_once(
    topics: Topics, copier: KafkaProducer
) -> None:
    copy(copier, topics, range(100))
    copier.abort_transaction()
    copy(copier, topics, range(RECORDS))
    copier.commit_transaction()
    copy(copier, topics, range(50))
    copier.abort_transaction()
    for how in (["--by", "value"], ["--by", "digest"], ["--id-field", "id"]):
        code, verdict, said = run(topics, *how)
        assert (code, said) == (0, "")
        assert (verdict["inputs"], verdict["outputs"]) == (RECORDS, RECORDS)
        assert verdict["ordered"] == RECORDS
    code, _, said = run(topics, "--by", "key")
    assert (code, f"{RECORDS} of {RECORDS} input records share their id" in said) == (3, True)
    assert run(topics, "--by", "key", "--count-alike")[0] == 0


def test_planted_faults_are_found(topics: Topics, copier: KafkaProducer) -> None:
    numbers = list(range(RECORDS))
    # The same key, and the same partition.
    numbers[7], numbers[157] = numbers[157], numbers[7]
    numbers.remove(99)
    copy(copier, topics, [*numbers, 5, 5, RECORDS])
    copier.commit_transaction()
    code, verdict, _ = run(topics, "--id-field", "id")
    assert code == 1
    assert verdict["faults"] == {"lost": 1, "duplicated": 2, "unexpected": 1, "reordered": 1}
    named = {(e["fault"], e["topic"], e["partition"], e["key"]) for e in verdict["examples"]}
    assert ("lost", topics.input, 0, "key-49") in named
    assert ("duplicated", topics.output, 2, "key-5") in named


def test_an_open_transaction_is_undecided_and_named(topics: Topics, copier: KafkaProducer) -> None:
    copy(copier, topics, range(RECORDS))
    code, verdict, said = run(topics, "--by", "value", wait_s=1)
    assert (code, verdict["holds"]) == (3, None)
    assert f"t-{topics.output}" in said
    copier.abort_transaction()
    assert run(topics, "--by", "value")[1]["faults"]["lost"] == RECORDS


def test_what_the_group_has_not_reached_need_not_be_there(
    topics: Topics, copier: KafkaProducer
) -> None:
    code, _, said = run(topics, "--by", "value", "--group", topics.group)
    assert (code, "has no offset of" in said) == (3, True)
    reached(topics, 240)
    copy(copier, topics, range(270))
    copier.commit_transaction()
    code, verdict, _ = run(topics, "--by", "value", "--group", topics.group)
    assert (code, verdict["inputs"], verdict["optional"], verdict["outputs"]) == (0, 240, 60, 270)
    assert run(topics, "--by", "value")[1]["faults"]["lost"] == 30
    reached(topics, 270)
    start = json.dumps({topics.input: dict.fromkeys("012", 80)})
    there = json.dumps({topics.output: dict.fromkeys("012", 80)})
    chosen = ["--group", topics.group, "--input-from", start, "--output-from", there]
    code, verdict, _ = run(topics, "--by", "value", *chosen)
    assert (code, verdict["inputs"], verdict["outputs"]) == (0, 30, 30)


def test_an_offset_of_a_former_topic_says_nothing_of_the_present_one(topics: Topics) -> None:
    with closing(KafkaAdminClient(bootstrap_servers=topics.servers)) as admin:
        present = next(iter(topic_ids(admin, [topics.input]).values()))
    of_present = stamps.Stamp(stamps.Scope.TASK, "q" * 22, present, "-", 7)
    reached(topics, 240, stamps.encode(of_present))
    code, verdict, _ = run(topics, "--by", "value", "--group", topics.group)
    assert (code, verdict["faults"]["lost"]) == (1, 240)
    reached(topics, 240, stamps.encode(of_present._replace(topic_id="A" * 22)))
    code, _, said = run(topics, "--by", "value", "--group", topics.group)
    assert (code, "is of a former topic" in said) == (3, True)


def test_what_is_gone_or_was_never_there_is_undecided(topics: Topics) -> None:
    with closing(KafkaAdminClient(bootstrap_servers=topics.servers)) as admin:
        admin.delete_records({TopicPartition(topics.input, 0): 50})
    code, _, said = run(topics, "--by", "value")
    assert (code, "begins at 50: what was before is gone" in said) == (3, True)
    start = json.dumps({topics.input: {"0": 10, "1": -2, "2": -2}})
    code, _, said = run(topics, "--by", "value", "--input-from", start)
    assert (code, "are gone: its log begins at 50" in said) == (3, True)
    with closing(KafkaAdminClient(bootstrap_servers=topics.servers)) as admin:
        name = f"compacted-{topics.output}"
        admin.create_topics([NewTopic(name, 1, 1, topic_configs={"cleanup.policy": "compact"})])
        admin.wait_for_topics([name])
    start = json.dumps({topics.input: dict.fromkeys("012", -2)})
    code, _, said = run(topics._replace(output=name), "--by", "value", "--input-from", start)
    assert (code, "is compacted" in said) == (3, True)
    code, _, said = run(topics._replace(output="none"), "--by", "value")
    assert (code, "there is no topic none" in said) == (3, True)
    code, _, said = run(topics._replace(servers="127.0.0.1:1"), "--by", "value")
    assert code == 3


def test_a_checkpoint_says_topics_group_and_start(streams: Streams, tmp_path: Path) -> None:
    topic, output, checkpoint = streams.topic(partitions=2), streams.topic(), streams.checkpoint()

    def copied() -> None:
        streams.copy(topic, output, checkpoint, {"startingOffsets": "latest"})

    streams.send(topic, *range(10))
    copied()
    streams.send(topic, *range(10, 30))
    copied()
    streams.add_partitions(topic, 3)
    streams.send(topic, *range(30, 60))
    there = Topics(streams.servers, "", output, "")
    code, verdict, said = run(there, "--by", "value", "--checkpoint", str(checkpoint))
    assert (code, "has no offset of" in said) == (3, True)
    copied()
    code, verdict, said = run(there, "--by", "value", "--checkpoint", str(checkpoint))
    assert (code, said, verdict["inputs"]) == (0, "", 50)
    # Of what it says, what is given counts.
    code, verdict, _ = run(
        there._replace(input=topic),
        "--by",
        "value",
        "--checkpoint",
        str(checkpoint),
        "--input-from",
        json.dumps({topic: dict.fromkeys("012", 0)}),
    )
    assert (code, verdict["faults"]["lost"]) == (1, 10)
    code, _, said = run(there, "--by", "value", "--checkpoint", str(tmp_path / "none"))
    assert (code, "is no checkpoint of a query" in said) == (2, True)


@needs_named_sources
@pytest.mark.parametrize("name", ["", "orders"])
def test_a_log_of_the_second_format_is_read(streams: Streams, name: str) -> None:
    topic, output, checkpoint = streams.topic(records=10), streams.topic(), streams.checkpoint()

    def copied() -> None:
        reader = streams.spark.readStream.format("eoskafka")
        if name:
            reader = reader.name(name)
        options = {
            "kafka.bootstrap.servers": streams.servers,
            "subscribe": topic,
            "startingOffsets": "earliest",
        }
        rows = kv(reader.options(**options).load())
        streams.run(streams.sink(rows, output, checkpoint, {"transactionScope": "epoch"}))

    of_sources = {
        "spark.sql.streaming.offsetLog.formatVersion": "2",
        "spark.sql.streaming.queryEvolution.enableSourceEvolution": str(bool(name)).lower(),
    }
    with settings(streams.spark, of_sources):
        copied()
        streams.send(topic, *range(10, 30))
        copied()
    there = Topics(streams.servers, "", output, "")
    code, verdict, said = run(there, "--by", "value", "--checkpoint", str(checkpoint))
    assert (code, said, verdict["inputs"]) == (0, "", 30)
    found = offsets.adopt(streams.servers, str(checkpoint))
    assert found == offsets.adopt(streams.servers, str(checkpoint), source=name or 0)
    assert sum(json.loads(found.start)[topic].values()) == 30
    with pytest.raises(CheckpointError, match=f"it has the sources {name or 0}"):
        offsets.adopt(streams.servers, str(checkpoint), source="payments")


@pytest.mark.parametrize("scope", [pytest.param("task", marks=pytest.mark.slow), "epoch"])
def test_a_query_that_goes_on_is_exactly_once_all_the_time(streams: Streams, scope: str) -> None:
    topic, output, group = streams.topic(records=200), streams.topic(), streams.group()
    source = streams.source(topic, {"kafka.group.id": group})
    sink = streams.sink(kv(source), output, streams.checkpoint(), {"transactionScope": scope})
    streams.start(sink)
    running = Topics(streams.servers, topic, output, group)
    until(lambda: streams.numbers(output), "the first batch", QUERY_S)
    sent = threading.Event()

    def feed() -> None:
        for first in range(200, 100_000, 20):
            streams.send(topic, *range(first, first + 20))
            if sent.wait(0.05):
                return

    feeder = threading.Thread(target=feed)
    feeder.start()
    try:
        for _ in range(5):
            code, verdict, said = run(running, "--by", "digest", "--group", group, "--wait", "20")
            assert (code, said) == (0, ""), verdict
    finally:
        sent.set()
        feeder.join()
