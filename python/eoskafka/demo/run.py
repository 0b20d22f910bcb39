"""The demo from its start to its verdict."""

from __future__ import annotations

import math
import random
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from kafka.admin import KafkaAdminClient, NewTopic

from eoskafka import jar_path
from eoskafka.cluster import LocalCluster, jars
from eoskafka.demo import proof, records
from eoskafka.demo.interruption import Interruption
from eoskafka.demo.killer import Kill, Killer, plan
from eoskafka.demo.launch import EXECUTORS, SparkJob
from eoskafka.demo.proof import Outcome
from eoskafka.demo.records import Line

INPUT_TOPIC = "demo-input"
OUTPUT_TOPIC = "demo-output"
PARTITIONS = 8
# More than the demo must show, since a batch may hold less than it could.
BATCHES = 26

# A driver and its executors need about 30 s of CPU time until their first batch; on a machine that
# is busy with other things that takes minutes.
_STALL_TIMEOUT_S = 300.0


@dataclass(frozen=True)
class Settings:
    """What to run.

    Attributes:
        input: a text file whose lines are the input, or None for the libraries' source files.
        count: number of records if there is no `input`.
        seed: decides the order of the kills and their moments.
        keep: keep logs, checkpoint and topics also if all is well.
    """

    input: Path | None
    count: int
    seed: int
    keep: bool = False


class Watcher(Protocol):
    """Hears what happens."""

    def phase(self, text: str) -> None:
        """The next thing begins."""

    def progress(self, done: int, total: int) -> None:
        """So many of the input records are in finished batches."""

    def event(self, text: str) -> None:
        """Something worth a line of its own happened."""


def run(settings: Settings, watcher: Watcher) -> Outcome:
    """Run the demo; whatever happens, nothing that it started is left running.

    Raises:
        JarError: there is no connector to show.
        DemoError: the input cannot be used, or the job failed or stalled.
        ClusterError: the broker does not start.
        UndecidedError: the topics cannot be read to their ends.
    """
    jar_path()
    lines = (
        records.file_lines(settings.input)
        if settings.input
        else records.source_lines(settings.count)
    )
    folder = Path(tempfile.mkdtemp(prefix="eoskafka-demo-"))
    keep = True
    interruption = Interruption()
    try:
        with interruption:
            outcome = _run_in(folder, lines, settings.seed, watcher, interruption)
        keep = settings.keep or not outcome.holds
    except KeyboardInterrupt:
        keep = settings.keep
        raise
    finally:
        if keep:
            watcher.event(f"logs and data are kept in {folder}")
        else:
            shutil.rmtree(folder)
    return outcome


def _run_in(
    folder: Path, lines: list[Line], seed: int, watcher: Watcher, interruption: Interruption
) -> Outcome:
    if not jars.are_here():
        watcher.phase("downloading Kafka (44 MB, once)")
        jars.kafka_jars()
    watcher.phase("starting a broker")
    with _cluster(folder / "kafka") as bootstrap_servers:
        began = time.monotonic()
        _create_topics(bootstrap_servers)
        job = SparkJob(folder, _job_arguments(bootstrap_servers, len(lines)))
        try:
            watcher.phase(f"starting the job and loading {len(lines):,} records")
            job.start()
            records.load(bootstrap_servers, INPUT_TOPIC, lines, PARTITIONS)
            job.release()
            watcher.phase("running the job")
            kills = _run_job(job, bootstrap_servers, seed, len(lines), watcher, interruption)
        finally:
            job.end()

        watcher.phase("comparing input and output")
        report = proof.audit(bootstrap_servers, INPUT_TOPIC, OUTPUT_TOPIC)
        seconds = time.monotonic() - began
    return Outcome(report, tuple(kills), job.progress().batches, seconds, seed)


def _run_job(
    job: SparkJob,
    bootstrap_servers: str,
    seed: int,
    total: int,
    watcher: Watcher,
    interruption: Interruption,
) -> list[Kill]:
    """Follow the job to its end and kill its processes on the way."""
    rng = random.Random(seed)
    orders = plan(rng, BATCHES)
    kills: list[Kill] = []
    with closing(KafkaAdminClient(bootstrap_servers=bootstrap_servers)) as admin:
        killer = Killer(job, admin, rng, orders)
        last, moved = job.progress(), time.monotonic()
        while (code := job.exit_code()) is None:
            interruption.check()
            progress = job.progress()
            watcher.progress(progress.records, total)
            if progress != last:
                last, moved = progress, time.monotonic()
            if time.monotonic() > moved + _STALL_TIMEOUT_S:
                raise job.failure(f"no batch finished for {_STALL_TIMEOUT_S:g} s")
            if (kill := killer.try_next()) is not None:
                kills.append(kill)
                moved = time.monotonic()
                watcher.event(_describe(kill, len(kills), len(orders)))
                if kill.victim == "driver":
                    job.restart()
            killer.pause()
        if code != 0:
            raise job.failure(f"the job ended with exit code {code}")
        watcher.progress(job.progress().records, total)
    return kills


def _describe(kill: Kill, number: int, planned: int) -> str:
    pids = " and ".join(str(pid) for pid in kill.pids)
    return (
        f"kill {number}/{planned}: {kill.victim}, pid {pids}, after batch {kill.batches}, "
        f"with {len(kill.transactions)} open transaction(s)"
    )


def _job_arguments(bootstrap_servers: str, count: int) -> list[str]:
    return [
        *("--bootstrap-servers", bootstrap_servers),
        *("--input-topic", INPUT_TOPIC, "--output-topic", OUTPUT_TOPIC),
        *("--executors", str(EXECUTORS)),
        *("--batch-size", str(math.ceil(count / BATCHES))),
    ]


def _create_topics(bootstrap_servers: str) -> None:
    with closing(KafkaAdminClient(bootstrap_servers=bootstrap_servers)) as admin:
        names = [INPUT_TOPIC, OUTPUT_TOPIC]
        admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in names])
        admin.wait_for_topics(names)


@contextmanager
def _cluster(data_dir: Path) -> Iterator[str]:
    """A broker of our own; its addresses."""
    cluster = LocalCluster(brokers=1, data_dir=data_dir)
    cluster.start()
    try:
        yield cluster.bootstrap_servers
    finally:
        cluster.stop()
