"""`eoskafka cluster`: brokers for trying things out, which start, stop and leave nothing behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from eoskafka.cluster import LocalCluster
from eoskafka.errors import ClusterError
from kafka import KafkaConsumer, KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.errors import KafkaError

StartCluster = Callable[..., LocalCluster]


@pytest.fixture
def start_cluster(tmp_path: Path, keep_logs: list[Path]) -> Iterator[StartCluster]:
    """Start clusters of the test's own; they are purged at its end."""
    started: list[LocalCluster] = []

    def start(**arguments: Any) -> LocalCluster:
        cluster = LocalCluster(data_dir=tmp_path / f"cluster-{len(started)}", **arguments)
        started.append(cluster)
        cluster.start()
        keep_logs.extend(broker.log_file for broker in cluster.brokers)
        return cluster

    yield start
    for cluster in started:
        cluster.purge()


def produce(cluster: LocalCluster, topic: str, count: int) -> None:
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, acks="all")
    for number in range(count):
        producer.send(topic, str(number).encode(), partition=0)
    producer.flush(timeout=60)
    producer.close()


def consume(cluster: LocalCluster, topic: str, count: int) -> list[int]:
    """The first `count` records; fewer if no more come for 30 s."""
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=cluster.bootstrap_servers,
        # In no group: this client gives up where the broker it asks for a coordinator is down.
        group_id=None,
        auto_offset_reset="earliest",
        consumer_timeout_ms=30_000,
    )
    # The range first: zip would ask the consumer for one record too many, and wait for it.
    values = [int(record.value) for _, record in zip(range(count), consumer, strict=False)]
    consumer.close()
    return values


def describe(cluster: LocalCluster, timeout_ms: int) -> Any:
    with KafkaAdminClient(
        bootstrap_servers=cluster.bootstrap_servers,
        bootstrap_timeout_ms=timeout_ms,
        request_timeout_ms=timeout_ms,
    ) as admin:
        return admin.describe_cluster()


def create_topic(cluster: LocalCluster, replicas: int) -> str:
    topic = f"topic-{uuid.uuid4()}"
    with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(topic, 1, replicas)])
    return topic


def test_one_broker_takes_records_and_gives_them_back(cluster: LocalCluster) -> None:
    topic = create_topic(cluster, replicas=1)
    produce(cluster, topic, 20)
    assert consume(cluster, topic, 20) == list(range(20))


def test_the_cluster_listens_on_the_loopback_address_only(cluster: LocalCluster) -> None:
    (broker,) = cluster.brokers
    settings = (broker.folder / "server.properties").read_text()
    assert f"listeners=PLAINTEXT://127.0.0.1:{broker.port}," in settings
    assert cluster.bootstrap_servers == f"127.0.0.1:{broker.port}"


def test_a_second_start_in_the_same_folder_is_refused(cluster: LocalCluster) -> None:
    with pytest.raises(ClusterError, match="already runs in"):
        LocalCluster(data_dir=cluster.data_dir).start()
    assert cluster.is_running


@pytest.mark.slow
def test_three_brokers_survive_the_kill_of_one_and_it_comes_back(
    start_cluster: StartCluster,
) -> None:
    cluster = start_cluster(brokers=3)
    topic = create_topic(cluster, replicas=3)
    produce(cluster, topic, 10)
    victim = cluster.brokers[0]
    former_pid, former_port = victim.pid, victim.port

    victim.kill()
    assert victim.pid is None
    assert consume(cluster, topic, 10) == list(range(10))

    victim.start()
    assert victim.pid not in (None, former_pid)
    assert victim.port == former_port
    produce(cluster, topic, 10)
    assert consume(cluster, topic, 20) == [*range(10), *range(10)]


@pytest.mark.slow
def test_a_paused_broker_answers_nobody_until_it_is_resumed(start_cluster: StartCluster) -> None:
    cluster = start_cluster()
    topic = create_topic(cluster, replicas=1)
    (broker,) = cluster.brokers
    broker.pause()
    with pytest.raises(KafkaError):
        describe(cluster, timeout_ms=2_000)
    broker.resume()
    produce(cluster, topic, 5)
    assert consume(cluster, topic, 5) == list(range(5))


@pytest.mark.slow
def test_a_stopped_cluster_starts_again_with_its_data(start_cluster: StartCluster) -> None:
    cluster = start_cluster()
    topic = create_topic(cluster, replicas=1)
    produce(cluster, topic, 5)
    before = (cluster.bootstrap_servers, cluster.cluster_id)
    cluster.stop()
    assert [broker.pid for broker in cluster.brokers] == [None]
    cluster.start()
    assert (cluster.bootstrap_servers, cluster.cluster_id) == before
    assert consume(cluster, topic, 5) == list(range(5))


def test_a_refused_setting_is_named_and_nothing_is_left_running(
    start_cluster: StartCluster, tmp_path: Path
) -> None:
    with pytest.raises(ClusterError) as failure:
        start_cluster(properties={"num.io.threads": "0"})
    assert "num.io.threads" in str(failure.value)
    cluster = LocalCluster.attach(tmp_path / "cluster-0")
    assert [broker.pid for broker in cluster.brokers] == [None]


def test_a_broker_that_ends_while_starting_names_its_log(start_cluster: StartCluster) -> None:
    cluster = start_cluster()
    (broker,) = cluster.brokers
    broker.terminate()
    settings = broker.folder / "server.properties"
    settings.write_text(settings.read_text().replace("node.id=1", "node.id=7"))
    with pytest.raises(ClusterError) as failure:
        broker.start()
    assert str(broker.log_file) in str(failure.value)
    assert "ended while it was starting" in str(failure.value)


def test_stop_ends_only_processes_that_it_started(start_cluster: StartCluster) -> None:
    cluster = start_cluster()
    (broker,) = cluster.brokers
    broker.kill()
    bystander = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        # As if the system had given the dead broker's number to another process.
        state_file = cluster.data_dir / "cluster.json"
        state = json.loads(state_file.read_text())
        state["brokers"][0]["pid"] = bystander.pid
        state_file.write_text(json.dumps(state))
        found = LocalCluster.attach(cluster.data_dir)
        assert found.brokers[0].pid is None
        found.stop()
        with pytest.raises(ClusterError, match="does not run"):
            found.brokers[0].kill()
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


@pytest.mark.slow
def test_the_command_line_finds_a_cluster_that_another_process_started(tmp_path: Path) -> None:
    def eoskafka(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "eoskafka", *arguments, "--data-dir", str(tmp_path / "c")],
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | {"NO_COLOR": "1"},
        )

    try:
        started = eoskafka("cluster", "start", "--format", "json")
        assert started.returncode == 0, started.stderr
        shown = eoskafka("cluster", "status", "--format", "json")
        assert (shown.returncode, shown.stdout) == (0, started.stdout)
        assert json.loads(shown.stdout)["running"] is True
        assert eoskafka("cluster", "start").returncode == 1
        assert eoskafka("cluster", "stop").returncode == 0
        assert eoskafka("cluster", "status").returncode == 3
    finally:
        purged = eoskafka("cluster", "purge")
    assert purged.returncode == 0
    assert not (tmp_path / "c").exists()
