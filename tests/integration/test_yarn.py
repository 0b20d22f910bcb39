"""A job on YARN, in client and in cluster mode: drivers and executors that are killed."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from eoskafka import jar_path
from eoskafka.audit import UndecidedError, read_committed
from eoskafka.cluster import LocalCluster
from eoskafka.demo import processes
from eoskafka.demo.processes import Process
from eoskafka.session import PLUGIN_CLASS
from harness import until
from harness.yarn import Yarn
from kafka import KafkaProducer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

JOB = Path(__file__).parents[2] / "notebooks" / "job.py"
PARTITIONS = 4
STEP = 20_000
KILLS = 2
START_S, OUTPUT_S = 120, 180


@pytest.fixture
def yarn(tmp_path: Path, keep_logs: list[Path]) -> Iterator[Yarn]:
    folder = tmp_path / "yarn"
    folder.mkdir()
    with Yarn(folder) as yarn:
        yield yarn
        keep_logs += yarn.logs()


@pytest.mark.parametrize("mode", ["client", "cluster"])
def test_a_job_on_yarn_whose_processes_are_killed(
    mode: str,
    yarn: Yarn,
    cluster: LocalCluster,
    topics: tuple[str, str],
    wheel: Path,
    tmp_path: Path,
) -> None:
    """In cluster mode the driver, which YARN starts again; in client mode an executor."""
    source, target = topics
    job = yarn.submit(
        JOB,
        [
            *("--servers", cluster.bootstrap_servers, "--input", source, "--output", target),
            *("--checkpoint", (tmp_path / "checkpoint").as_uri()),
        ],
        *("--deploy-mode", mode, "--jars", str(jar_path()), "--py-files", str(wheel)),
        *("--conf", f"spark.plugins={PLUGIN_CLASS}", "--conf", "spark.yarn.maxAppAttempts=4"),
    )

    def written() -> list[int] | None:
        """The numbers in the output, or None while a transaction that somebody left is open."""
        try:
            records = list(read_committed(cluster.bootstrap_servers, target))
        except UndecidedError:
            return None
        return sorted(int((record.value or b"").removeprefix(b"PAYMENT ")) for record in records)

    victims: Callable[[], list[Process]] = yarn.drivers if mode == "cluster" else yarn.executors
    for step in range(KILLS + 1):
        with closing(KafkaProducer(bootstrap_servers=cluster.bootstrap_servers)) as producer:
            for n in range(step * STEP, (step + 1) * STEP):
                producer.send(source, key=b"k", value=b"payment %d" % n, partition=n % PARTITIONS)
        if step < KILLS:
            until(
                lambda least=step * STEP: len(written() or []) > least,  # type: ignore[misc]
                "output of this driver",
                OUTPUT_S,
                job.text,
            )
            victim = until(victims, "a process to kill", START_S, job.text)[0]
            processes.send([victim], signal.SIGKILL)
            until(lambda v=victim: v not in victims(), "its end", START_S)  # type: ignore[misc]
    expected = [*range((KILLS + 1) * STEP)]
    until(lambda: len(written() or []) >= len(expected), "all output", OUTPUT_S, job.text)
    assert written() == expected
    assert job.is_running(), job.text()
