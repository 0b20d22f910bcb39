"""`eoskafka verify` on real topics: planted faults, open transactions, a query that goes on."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import closing
from typing import NamedTuple

import pytest
from eoskafka.cluster import LocalCluster
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.structs import OffsetAndMetadata

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


def reached(topics: Topics, records: int) -> None:
    """Commit that a group has read so many records."""
    with closing(
        KafkaConsumer(bootstrap_servers=topics.servers, group_id=topics.group)
    ) as consumer:
        consumer.commit(
            {
                TopicPartition(topics.input, p): OffsetAndMetadata(records // PARTITIONS, "", -1)
                for p in range(PARTITIONS)
            }
        )


def run(topics: Topics, *more: str) -> tuple[int, dict[str, object], str]:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "eoskafka", "verify", "--format", "json", "--wait", "1"),
            *("--bootstrap-servers", topics.servers),
            *("--input", topics.input, "--output", topics.output, *more),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, json.loads(done.stdout) if done.stdout else {}, done.stderr


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
    assert run(topics, "--by", "key")[0] == 0


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
    named = {(e["fault"], e["topic"], e["partition"]) for e in verdict["examples"]}
    assert ("lost", topics.input, 0) in named
    assert ("duplicated", topics.output, 2) in named


def test_an_open_transaction_is_undecided_and_named(topics: Topics, copier: KafkaProducer) -> None:
    copy(copier, topics, range(RECORDS))
    code, verdict, said = run(topics, "--by", "value")
    assert (code, verdict) == (3, {})
    assert f"t-{topics.output}" in said
    copier.abort_transaction()
    assert run(topics, "--by", "value")[1]["faults"]["lost"] == RECORDS


def test_what_the_group_has_not_reached_need_not_be_there(
    topics: Topics, copier: KafkaProducer
) -> None:
    code, _, said = run(topics, "--by", "value", "--group", topics.group)
    assert (code, "has no offsets of" in said) == (3, True)
    reached(topics, 240)
    copy(copier, topics, range(270))
    copier.commit_transaction()
    code, verdict, _ = run(topics, "--by", "value", "--group", topics.group)
    assert (code, verdict["inputs"], verdict["later"], verdict["outputs"]) == (0, 240, 60, 270)
    assert run(topics, "--by", "value")[1]["faults"]["lost"] == 30
    reached(topics, 270)
    start = json.dumps({topics.input: dict.fromkeys("012", 80)})
    there = json.dumps({topics.output: dict.fromkeys("012", 80)})
    chosen = ["--group", topics.group, "--input-from", start, "--output-from", there]
    code, verdict, _ = run(topics, "--by", "value", *chosen)
    assert (code, verdict["inputs"], verdict["outputs"]) == (0, 30, 30)


def test_what_is_gone_or_was_never_there_is_undecided(topics: Topics) -> None:
    with closing(KafkaAdminClient(bootstrap_servers=topics.servers)) as admin:
        admin.delete_records({TopicPartition(topics.input, 0): 50})
    start = json.dumps({topics.input: {"0": 10}})
    code, _, said = run(topics, "--by", "value", "--input-from", start)
    assert (code, "are gone: the logs begin at" in said) == (3, True)
    code, _, said = run(topics._replace(output="none"), "--by", "value")
    assert (code, "there is no topic none" in said) == (3, True)
    code, _, said = run(topics._replace(servers="127.0.0.1:1"), "--by", "value")
    assert code == 3
