"""The audit's reader on a real broker: committed records only, all of them, or no verdict."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import closing

import pytest
from eoskafka.audit import UndecidedError, read_committed
from eoskafka.cluster import LocalCluster
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic


@pytest.fixture
def topic(cluster: LocalCluster) -> str:
    name = f"audit-{uuid.uuid4().hex}"
    with closing(KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)) as admin:
        admin.create_topics([NewTopic(name, 3, 1)])
        admin.wait_for_topics([name])
    return name


@pytest.fixture
def producer(cluster: LocalCluster, topic: str) -> Iterator[KafkaProducer]:
    with closing(
        KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, transactional_id=f"test-{topic}")
    ) as producer:
        producer.init_transactions()
        yield producer


def write(producer: KafkaProducer, topic: str, label: str, partitions: range) -> None:
    producer.begin_transaction()
    for partition in partitions:
        for number in range(10):
            producer.send(topic, value=b"v", key=f"{label}-{number}".encode(), partition=partition)
    producer.flush()


def test_aborted_records_are_passed_over_also_at_the_end_of_a_partition(
    cluster: LocalCluster, topic: str, producer: KafkaProducer
) -> None:
    write(producer, topic, "kept", range(3))
    producer.commit_transaction()
    write(producer, topic, "aborted", range(2))
    producer.abort_transaction()
    records = list(read_committed(cluster.bootstrap_servers, topic))
    assert len(records) == 30
    assert all((record.key or b"").startswith(b"kept-") for record in records)
    assert [r.offset for r in records if r.partition == 0] == list(range(10))


def test_an_empty_topic_is_read_at_once(cluster: LocalCluster, topic: str) -> None:
    assert list(read_committed(cluster.bootstrap_servers, topic)) == []


def test_an_open_transaction_is_undecided_and_named(
    cluster: LocalCluster, topic: str, producer: KafkaProducer
) -> None:
    write(producer, topic, "open", range(1, 2))
    began = time.monotonic()
    with pytest.raises(UndecidedError) as raised:
        list(read_committed(cluster.bootstrap_servers, topic, stable_timeout_s=1))
    assert time.monotonic() - began < 15
    assert f"{topic}-1 from offset 0 to 9" in str(raised.value)
    assert f"test-{topic} (producer " in str(raised.value)
    producer.abort_transaction()


def test_a_missing_topic_is_undecided(cluster: LocalCluster) -> None:
    with pytest.raises(UndecidedError, match="no-such-topic"):
        list(read_committed(cluster.bootstrap_servers, "no-such-topic"))


def test_a_cluster_that_does_not_answer_is_undecided() -> None:
    with pytest.raises(UndecidedError, match=r"127\.0\.0\.1:1"):
        list(read_committed("127.0.0.1:1", "any"))
