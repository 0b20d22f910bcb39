"""What clusters do to applications: kill drivers, take machines away, limit memory."""

from __future__ import annotations

import signal
from contextlib import closing
from pathlib import Path

import pytest
from eoskafka import jar_path
from eoskafka.audit import UndecidedError, read_committed
from eoskafka.cluster import LocalCluster
from eoskafka.demo import processes
from eoskafka.demo.processes import Process
from eoskafka.session import PLUGIN_CLASS
from harness import memory, until
from harness.javac import compile_to_jar
from harness.memory import MemoryLimit
from harness.standalone import Standalone, Submitted
from kafka import KafkaProducer

pytestmark = pytest.mark.slow

PARTITIONS = 4
STEP = 5_000
OUTPUT_S, START_S = 150, 90
GREEDY = Path(__file__).parent / "harness" / "greedy.py"
# What Kubernetes gives to an executor of 512 MiB by default, and 256 for the worker beside it.
POD_MIB = 512 + 384 + 256


def send(cluster: LocalCluster, topic: str, numbers: range) -> None:
    with closing(KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=5)) as to:
        for n in numbers:
            to.send(topic, key=b"k%d" % n, value=b"payment %d" % n, partition=n % PARTITIONS)


def written(cluster: LocalCluster, topic: str) -> list[int] | None:
    """The numbers in the output, or None while a transaction that somebody has left is open."""
    try:
        records = list(read_committed(cluster.bootstrap_servers, topic))
    except UndecidedError:
        return None
    return sorted(int((record.value or b"").removeprefix(b"PAYMENT ")) for record in records)


def submit(standalone: Standalone, jar: Path, arguments: list[str], *options: str) -> Submitted:
    return standalone.submit(
        jar,
        arguments,
        *("--class", "testing.Capitals", "--jars", str(jar_path())),
        *("--conf", f"spark.plugins={PLUGIN_CLASS}", *options),
    )


def test_a_driver_in_the_cluster_that_is_killed_is_started_again(
    standalone: Standalone, cluster: LocalCluster, topics: tuple[str, str], tmp_path: Path
) -> None:
    source, target = topics
    arguments = [cluster.bootstrap_servers, source, target, str(tmp_path / "checkpoint")]
    options = ("--deploy-mode", "cluster", "--supervise")
    job = submit(standalone, compile_to_jar(tmp_path), arguments, *options)
    for step in range(3):
        send(cluster, source, range(step * STEP, (step + 1) * STEP))
        (driver,) = until(standalone.drivers, "a driver", START_S, job.text)
        if step < 2:

            def has_begun(least: int = step * STEP) -> bool:
                found = written(cluster, target)
                return found is None or len(found) > least

            def has_ended(former: Process = driver) -> bool:
                return former not in standalone.drivers()

            until(has_begun, "output of this driver", OUTPUT_S, job.text)
            processes.send([driver], signal.SIGKILL)
            until(has_ended, "the end of the killed driver", START_S)
    expected = [*range(3 * STEP)]
    until(lambda: len(written(cluster, target) or []) >= len(expected), "all output", OUTPUT_S)
    assert written(cluster, target) == expected


def test_a_machine_that_is_decommissioned_loses_and_duplicates_nothing(
    standalone: Standalone, cluster: LocalCluster, topics: tuple[str, str], tmp_path: Path
) -> None:
    source, target = topics
    arguments = [cluster.bootstrap_servers, source, target, str(tmp_path / "checkpoint")]
    options = ("--conf", "spark.decommission.enabled=true")
    job = submit(standalone, compile_to_jar(tmp_path), arguments, *options)
    until(lambda: len(standalone.executors()) == 2, "two executors", START_S, job.text)
    send(cluster, source, range(STEP))
    until(lambda: written(cluster, target) != [], "some output", OUTPUT_S, job.text)
    gone = standalone.executors()[0]
    standalone.decommission(gone)
    send(cluster, source, range(STEP, 2 * STEP))
    until(
        lambda: gone.id not in {p.id for p in standalone.executors()},
        "the end of the executor",
        START_S,
        job.text,
    )
    send(cluster, source, range(2 * STEP, 3 * STEP))
    expected = [*range(3 * STEP)]
    until(lambda: len(written(cluster, target) or []) >= len(expected), "all output", OUTPUT_S)
    assert job.is_running(), job.text()
    assert written(cluster, target) == expected


@pytest.mark.skipif(not memory.is_possible(), reason="needs root and control groups, version 1")
def test_a_process_that_is_killed_for_its_memory_leaves_no_duplicate(
    cluster: LocalCluster, topics: tuple[str, str], tmp_path: Path
) -> None:
    source, target = topics
    greed = tmp_path / "greed"
    arguments = [cluster.bootstrap_servers, source, target, str(tmp_path / "checkpoint")]
    with MemoryLimit(POD_MIB) as limit, Standalone(tmp_path, workers=0) as standalone:
        standalone.add_workers(1, limit=limit)
        job = standalone.submit(
            GREEDY,
            [*arguments, str(greed)],
            *("--jars", str(jar_path()), "--conf", f"spark.plugins={PLUGIN_CLASS}"),
        )
        for step in range(2):
            send(cluster, source, range(step * STEP, (step + 1) * STEP))
            until(
                lambda least=(step + 1) * STEP: len(written(cluster, target) or []) >= least,  # type: ignore[misc]
                "all output",
                OUTPUT_S,
                job.text,
            )
            # The query itself has enough.
            assert (limit.kills() > 0) == (step == 1)
            greed.touch()
        assert written(cluster, target) == [*range(2 * STEP)]
        assert job.is_running(), job.text()
