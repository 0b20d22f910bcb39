"""The demo from its start to its verdict."""

from __future__ import annotations

import dataclasses
import math
import random
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from kafka import TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic

from eoskafka import jar_path
from eoskafka.audit import Fault, Report
from eoskafka.bench.peers import EOSKAFKA, Peer, peer_jars
from eoskafka.cluster import LocalCluster, jars
from eoskafka.demo import proof, records
from eoskafka.demo.follow import Follower, State
from eoskafka.demo.interruption import Interruption
from eoskafka.demo.killer import Kill, Killer, plan
from eoskafka.demo.launch import EXECUTORS, SparkJob
from eoskafka.demo.proof import Outcome
from eoskafka.demo.records import Line
from eoskafka.demo.signs import OpenTransactions, WrittenRecords

INPUT_TOPIC = "demo-input"
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
        connectors: the connectors to show, one after the other: of `eoskafka.bench.peers`, in
            Spark. All of them read the same topic, and eoskafka is the last one.
    """

    input: Path | None
    count: int
    seed: int
    keep: bool = False
    connectors: tuple[Peer, ...] = (EOSKAFKA,)


class Watcher(Protocol):
    """Receives the progress of a demo."""

    def phase(self, text: str) -> None:
        """The next step begins."""

    def progress(self, connector: str, state: State, total: int) -> None:
        """The progress of a connector's job, which has this many input records."""

    def event(self, text: str) -> None:
        """Something worth a line of its own happened."""


def run(settings: Settings, watcher: Watcher) -> list[Outcome]:
    """Run the demo; whatever happens, nothing that it started is left running.

    Returns:
        an outcome for each connector, in their order.

    Raises:
        JarError: there is no connector to show.
        BenchError: the jars of a connector other than eoskafka cannot be had.
        DemoError: the input cannot be used, or a job failed or stalled.
        ClusterError: the broker does not start.
        UndecidedError: the topics cannot be read to their ends.
    """
    jar_path()
    jars_of = {peer: [] if peer.is_ours else peer_jars() for peer in settings.connectors}
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
            outcomes = _run_in(folder, jars_of, lines, settings.seed, watcher, interruption)
        keep = settings.keep or not outcomes[-1].holds
    except KeyboardInterrupt:
        keep = settings.keep
        raise
    finally:
        if keep:
            watcher.event(f"logs and data are kept in {folder}")
        else:
            shutil.rmtree(folder)
    return outcomes


def _run_in(
    folder: Path,
    jars_of: Mapping[Peer, Sequence[Path]],
    lines: list[Line],
    seed: int,
    watcher: Watcher,
    interruption: Interruption,
) -> list[Outcome]:
    if not jars.are_here():
        watcher.phase("downloading Kafka (44 MB, once)")
        jars.kafka_jars()
    watcher.phase("starting a broker")
    outcomes: list[Outcome] = []
    with _cluster(folder / "kafka") as bootstrap_servers:
        outputs = {peer: f"demo-output-{peer.id}" for peer in jars_of}
        _create_topics(bootstrap_servers, [INPUT_TOPIC, *outputs.values()])
        for peer, output in outputs.items():
            began = time.monotonic()
            arguments = _job_arguments(bootstrap_servers, len(lines), peer, output, jars_of[peer])
            job = SparkJob(folder / peer.id, arguments)
            run = _Run(peer, job, bootstrap_servers, output, len(lines), watcher, interruption)
            try:
                watcher.phase(f"{peer.name}: starting the job")
                job.start()
                if not outcomes:
                    watcher.phase(f"loading {len(lines):,} records")
                    records.load(bootstrap_servers, INPUT_TOPIC, lines, PARTITIONS)
                job.release()
                watcher.phase(f"{peer.name}: running the job")
                run.follow(seed)
            finally:
                job.end()

            watcher.phase(f"{peer.name}: comparing input and output")
            report = proof.audit(bootstrap_servers, INPUT_TOPIC, output)
            run.finish(report)
            outcomes.append(
                Outcome(
                    report,
                    tuple(run.kills),
                    job.progress().batches,
                    time.monotonic() - began,
                    seed,
                    peer.name,
                    tuple(run.history),
                )
            )
    return outcomes


@dataclass
class _Run:
    """One connector's job, followed from its release to its end."""

    connector: Peer
    job: SparkJob
    bootstrap_servers: str
    output: str
    total: int
    watcher: Watcher
    interruption: Interruption
    kills: list[Kill] = field(default_factory=list)
    history: list[State] = field(default_factory=list)

    def follow(self, seed: int) -> None:
        """Follow the job to its end and kill its processes on the way."""
        rng = random.Random(seed)  # noqa: S311 - the order of the kills, which a seed repeats
        orders = plan(rng, BATCHES)
        partitions = [TopicPartition(self.output, number) for number in range(PARTITIONS)]
        with (
            closing(KafkaAdminClient(bootstrap_servers=self.bootstrap_servers)) as admin,
            closing(Follower(self.bootstrap_servers, partitions)) as follower,
        ):
            sign = (
                OpenTransactions(admin)
                if self.connector.is_ours
                else WrittenRecords(admin, self.job, partitions)
            )
            killer = Killer(self.job, sign, rng, orders)
            began = moved = time.monotonic()
            last = self.job.progress()
            while (code := self.job.exit_code()) is None:
                self.interruption.check()
                follower.read()
                progress = self.job.progress()
                self._now(
                    State(
                        time.monotonic() - began,
                        progress.records,
                        follower.outputs,
                        follower.duplicates,
                        len(self.kills),
                    )
                )
                if progress != last:
                    last, moved = progress, time.monotonic()
                if time.monotonic() > moved + _STALL_TIMEOUT_S:
                    raise self.job.failure(f"no batch finished for {_STALL_TIMEOUT_S:g} s")
                if (kill := killer.try_next()) is not None:
                    self.kills.append(kill)
                    moved = time.monotonic()
                    self.watcher.event(
                        f"{self.connector.name}: {_describe(kill, len(self.kills), len(orders))}"
                    )
                    if kill.victim == "driver":
                        self.job.restart()
                killer.pause()
            if code != 0:
                raise self.job.failure(f"the job ended with exit code {code}")

    def finish(self, report: Report) -> None:
        """The last moment is what the audit has found."""
        self._now(
            State(
                self.history[-1].seconds if self.history else 0.0,
                self.job.progress().records,
                report.outputs,
                report.faults[Fault.DUPLICATED],
                len(self.kills),
                report.faults[Fault.LOST],
            )
        )

    def _now(self, state: State) -> None:
        """Remember and show a moment, if it differs from the last one."""
        if (
            not self.history
            or dataclasses.replace(self.history[-1], seconds=state.seconds) != state
        ):
            self.history.append(state)
            self.watcher.progress(self.connector.name, state, self.total)


def _describe(kill: Kill, number: int, planned: int) -> str:
    pids = " and ".join(str(pid) for pid in kill.pids)
    return (
        f"kill {number}/{planned}: {kill.victim}, pid {pids}, after batch {kill.batches}, "
        f"with {kill.unfinished}"
    )


def _job_arguments(
    bootstrap_servers: str, count: int, connector: Peer, output: str, extra: Sequence[Path]
) -> list[str]:
    assert connector.format is not None
    return [
        *("--bootstrap-servers", bootstrap_servers),
        *("--format", connector.format),
        *(("--jars", ",".join(map(str, extra))) if extra else ()),
        *("--input-topic", INPUT_TOPIC, "--output-topic", output),
        *("--executors", str(EXECUTORS)),
        *("--batch-size", str(math.ceil(count / BATCHES))),
    ]


def _create_topics(bootstrap_servers: str, names: list[str]) -> None:
    with closing(KafkaAdminClient(bootstrap_servers=bootstrap_servers)) as admin:
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
