"""`make soak`: two hours of epochs, with a driver that dies every few minutes, and what they leave.

One broker, one query in epoch scope. At the end of each stretch the driver is killed between a
decision and the end of its transactions; the next one settles that. Noted before: what driver and
broker hold, the ids and producers that the broker knows, the decision topic's size on its disk, how
long a start and an epoch take. Every record is counted at the end of a segment. The broker's data,
the checkpoint and the figures stay in the state folder: the next call is the next segment, and one
that was interrupted goes on with the next stretch.

Exit code 0: every record came out once and nothing grew by more than `MOST` says. 1: otherwise.
"""

from __future__ import annotations

import argparse
import json
import time
import uuid
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any

from costs.__main__ import sizes
from eoskafka.audit import compare
from eoskafka.cluster import LocalCluster
from harness import Application, Flow
from harness.flow import exclaimed
from kafka import TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic
from requestlog.__main__ import connector

from faults.held import Held, ends, held

ROOT = Path(__file__).resolve().parent.parent.parent
# Five minutes or less.
STRETCH = 1_000
RECORDS_PER_EPOCH = 20
PLAN: dict[str, Any] = {"transform": "repartitioned", "maxOffsetsPerTrigger": RECORDS_PER_EPOCH}
STRETCH_TIMEOUT_S = 1_800.0

DECISIONS = "__eoskafka_decisions"
# As the connector makes it, but for segments a quarter as long: only closed ones are compacted.
DECISIONS_SETTINGS = {
    "cleanup.policy": "compact",
    "unclean.leader.election.enable": "false",
    "min.insync.replicas": "1",
    "min.cleanable.dirty.ratio": "0.1",
    "delete.retention.ms": "60000",
    "segment.bytes": str(1024 * 1024),
}
BROKER = {
    # Ids of former runs are forgotten after seven days, and producers after one; here while the
    # soak goes on.
    "transactional.id.expiration.ms": "60000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "10000",
    "producer.id.expiration.ms": "300000",
    "producer.id.expiration.check.interval.ms": "30000",
    "log.cleaner.backoff.ms": "5000",
    # With its first snapshot, hourly by default, a controller takes a buffer of 8 MiB and keeps it:
    # here in the first stretch.
    "metadata.log.max.snapshot.interval.ms": "60000",
}
# How much more there may be in the last third of the stretches than in the first: a little more
# than a steady value varies from stretch to stretch.
MOST = {
    "driver_heap_mib": 5.0,
    "driver_threads": 4.0,
    "driver_files": 8.0,
    "broker_heap_mib": 10.0,
    "broker_threads": 4.0,
    # Five writers and the decision, of two runs.
    "ids": 12.0,
    "producers": 100.0,
    # Two segments in each of eight partitions.
    "decisions_bytes": 8 * 2 * 1024 * 1024,
}


@dataclass(frozen=True)
class Stretch:
    """What one stretch has left, before its driver was killed.

    Attributes:
        segment: the number of the call that it belongs to.
        epochs: so far, of all stretches.
        start_s: from the query's start to the end of its first epoch, which settles the former
            driver's last one.
        epoch_ms: mean of the others.
        driver, broker: what their processes hold.
        ids: transactional ids that the broker knows.
        producers: that it keeps state of, added up over the partitions of output and decisions.
        decisions_bytes: of the decision topic on the broker's disk.
    """

    segment: int
    epochs: int
    start_s: float
    epoch_ms: float
    driver: Held
    broker: Held
    ids: int
    producers: int
    decisions_bytes: int

    @classmethod
    def of_json(cls, found: dict[str, Any]) -> Stretch:
        """As `asdict` has made it."""
        processes = {name: Held(**found[name]) for name in ("driver", "broker")}
        return cls(**{**found, **processes})

    def figures(self) -> dict[str, float]:
        """All of them by name."""
        found: dict[str, float] = {"start_s": self.start_s, "epoch_ms": self.epoch_ms}
        for name, of in (("driver", self.driver), ("broker", self.broker)):
            found |= {f"{name}_{field}": value for field, value in asdict(of).items()}
        found |= {name: getattr(self, name) for name in ("ids", "producers", "decisions_bytes")}
        return found


def main() -> int:
    """Run the stretches of a segment, and judge."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=120.0, help="of this segment")
    parser.add_argument("--state", type=Path, default=ROOT / "build" / "soak")
    parser.add_argument("--report", type=Path, default=ROOT / "reports" / "soak.md")
    parser.add_argument("--beside", default="", help="what else ran on the machine, for the report")
    arguments = parser.parse_args()
    arguments.state.mkdir(parents=True, exist_ok=True)
    kept = arguments.state / "stretches.json"
    found = json.loads(kept.read_text()) if kept.exists() else []
    done = [Stretch.of_json(each) for each in found]
    segment = done[-1].segment + 1 if done else 1
    ends_at = time.monotonic() + arguments.minutes * 60
    with LocalCluster(data_dir=arguments.state / "kafka", properties=BROKER) as cluster:
        flow = _flow(cluster.bootstrap_servers, arguments.state)
        while time.monotonic() < ends_at:
            with Application(_folder(arguments.state), "local[2]") as application:
                done.append(_run(flow, application, cluster, segment))
            print(done[-1], flush=True)
            kept.write_text(json.dumps([asdict(each) for each in done], indent=1) + "\n")
        with Application(_folder(arguments.state), "local[2]") as application:
            flow.start(application, **PLAN).wait_done()
        flow.assert_nothing_is_open()
        verdict = compare(flow.inputs(), flow.outputs(), exclaimed)
    grown = growth(done)
    faults = f"{verdict.faults}" if verdict.findings else "none"
    text = _report(done, flow.produced, faults, grown, arguments.beside)
    arguments.report.parent.mkdir(exist_ok=True)
    arguments.report.write_text(text, encoding="utf-8")
    print(text)
    return 0 if verdict.is_exactly_once and not grown else 1


def growth(done: Sequence[Stretch]) -> list[str]:
    """What is greater in the last third of the stretches than in the first, by more than `MOST`."""
    found = thirds(done)
    return [
        f"{name}: {first:,.1f}, then {last:,.1f}"
        for name, most in MOST.items()
        for first, last in [found[name]]
        if last > first + most
    ]


def thirds(done: Sequence[Stretch]) -> dict[str, tuple[float, float]]:
    """Each figure, in the first and in the last third of the stretches."""
    figures = [each.figures() for each in done]
    return {name: ends([each[name] for each in figures]) for name in figures[0]}


def _flow(servers: str, state: Path) -> Flow:
    """The soak's topics and checkpoint; as they were if it goes on."""
    name = state / "name"
    if name.exists():
        return Flow(servers, state / "checkpoint", name=name.read_text())
    with closing(KafkaAdminClient(bootstrap_servers=servers)) as admin:
        admin.create_topics([NewTopic(DECISIONS, 8, 1, topic_configs=DECISIONS_SETTINGS)])
    flow = Flow(servers, state / "checkpoint")
    name.write_text(flow.name)
    return flow


def _run(flow: Flow, application: Application, cluster: LocalCluster, segment: int) -> Stretch:
    flow.produce(STRETCH * RECORDS_PER_EPOCH)
    before = _epochs(flow)
    began = time.monotonic()
    query = flow.start(application, **PLAN)
    query.wait_batches(before + 1)
    started = time.monotonic()
    done = query.wait_done(STRETCH_TIMEOUT_S)
    ended = time.monotonic()
    broker = cluster.brokers[0].pid
    assert broker is not None
    left = Stretch(
        segment=segment,
        epochs=done.batches,
        start_s=round(started - began, 1),
        epoch_ms=round((ended - started) * 1_000 / (done.batches - before - 1), 1),
        driver=held(application.driver_jvm()),
        broker=held(broker),
        ids=len(flow.transactional_ids()),
        producers=_producers(flow),
        decisions_bytes=sizes(cluster.data_dir)["decisionBytes"],
    )
    flow.produce(RECORDS_PER_EPOCH)
    application.faults.arm("after-decision", "kill")
    flow.start(application, **PLAN)
    application.faults.wait_taken("after-decision")
    application.kill()
    return left


def _producers(flow: Flow) -> int:
    """How many producers the broker keeps state of in output and decisions."""
    with flow.admin() as admin:
        topics = admin.describe_topics([flow.output, DECISIONS])
        of = [
            TopicPartition(topic["name"], each["partition_index"])
            for topic in topics
            for each in topic["partitions"]
        ]
        return sum(len(state.active_producers) for state in admin.describe_producers(of).values())


def _epochs(flow: Flow) -> int:
    """How many epochs Spark has logged as done."""
    numbers = [int(f.name) for f in (flow.checkpoint / "commits").glob("*") if f.name.isdigit()]
    return max(numbers, default=-1) + 1


def _folder(state: Path) -> Path:
    folder = state / f"application-{uuid.uuid4().hex[:8]}"
    folder.mkdir()
    return folder


def _report(done: list[Stretch], records: int, faults: str, grown: list[str], beside: str) -> str:
    machine = f" Beside it, the machine ran {beside}." if beside else ""
    rows = "\n".join(
        f"| `{name}` | {first:,.1f} | {last:,.1f} | {MOST.get(name, '')} |"
        for name, (first, last) in thirds(done).items()
    )
    columns = (
        *("start_s", "epoch_ms", "driver_heap_mib", "broker_heap_mib"),
        *("ids", "producers", "decisions_bytes"),
    )
    stretches = "\n".join(
        f"| {each.segment} | {each.epochs:,} | "
        + " | ".join(f"{each.figures()[name]:,.1f}" for name in columns)
        + " |"
        for each in done
    )
    return f"""# Soak: {done[-1].epochs:,} epochs

`make soak` in {done[-1].segment} segments, the last on {date.today()}.{machine} {connector()}

One broker, one query in epoch scope (`repartition(5)`), {RECORDS_PER_EPOCH} records an epoch,
{len(done)} stretches of {STRETCH:,} epochs. After each stretch the driver was killed between a
decision and the end of its transactions; a start has that to settle. Transactional ids expire after
a minute here instead of seven days, producers after five minutes instead of a day, and the decision
topic's segments have 1 MiB instead of 4: to see in hours what takes weeks.

{records:,} records went in; lost, doubled, altered or unexpected: {faults}.

Greater in the last third of the stretches than in the first, by more than the bound:
{"; ".join(grown) or "nothing"}. Memory is in MiB after a full collection, and the driver of a
stretch is a new process. Threads are those of Java without Spark's pools, which keep a thread for a
minute and so grow with epochs per second. A broker's files include the controller's snapshots, kept
for a week: one a minute here, so that the first one comes early, and one an hour by default.

| | first third | last third | bound of the difference |
|---|---|---|---|
{rows}

## Stretches

| segment | epochs | {" | ".join(f"`{name}`" for name in columns)} |
|---|---|{"---|" * len(columns)}
{stretches}
"""


if __name__ == "__main__":
    raise SystemExit(main())
