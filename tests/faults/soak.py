"""`make soak`: ten thousand epochs, with a driver that dies every few hundred, and what they leave.

One broker, one query in epoch scope. At the end of each stretch the driver is killed between a
decision and the end of its transactions; the next one settles that. Counted then: the ids that the
broker knows, the decision topic's size on its disk, how long a start and an epoch take; and in the
end every record. The broker's data, the checkpoint and the figures stay in the state
folder, so a soak that was interrupted goes on with the next stretch.

Exit code 0: every record came out once and nothing grows. 1: otherwise.
"""

from __future__ import annotations

import argparse
import json
import time
import uuid
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from eoskafka.audit import compare
from eoskafka.cluster import LocalCluster
from harness import Application, Flow
from harness.flow import exclaimed
from kafka.admin import KafkaAdminClient, NewTopic

ROOT = Path(__file__).resolve().parent.parent.parent
STRETCH = 500
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
# Far above what a query of five writers may keep in eight partitions of such segments.
MOST_BYTES = 8 * 2 * 1024 * 1024
BROKER = {
    # Ids of former runs are forgotten after seven days; here while the soak goes on.
    "transactional.id.expiration.ms": "60000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "10000",
    "log.cleaner.backoff.ms": "5000",
}
# Five writers and the decision, of the present run and of those that are not forgotten yet.
MOST_IDS = 60


@dataclass(frozen=True)
class Stretch:
    """What one stretch has left.

    Attributes:
        epochs: so far, of all stretches.
        start_s: from the query's start to the end of its first epoch, which settles the former
            driver's last one.
        epoch_ms: mean of the others.
        ids: transactional ids that the broker knows.
        bytes: of the decision topic on the broker's disk.
    """

    epochs: int
    start_s: float
    epoch_ms: float
    ids: int
    bytes: int


def main() -> int:
    """Run stretches until there are enough epochs, and judge."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=10_000, help="how many")
    parser.add_argument("--state", type=Path, default=ROOT / "build" / "soak")
    parser.add_argument("--report", type=Path, default=ROOT / "reports" / "soak.md")
    arguments = parser.parse_args()
    arguments.state.mkdir(parents=True, exist_ok=True)
    kept = arguments.state / "stretches.json"
    done = [Stretch(**each) for each in json.loads(kept.read_text())] if kept.exists() else []
    data = arguments.state / "kafka"
    with LocalCluster(data_dir=data, properties=BROKER) as cluster:
        flow = _flow(cluster.bootstrap_servers, arguments.state)
        while not done or done[-1].epochs < arguments.epochs:
            with Application(_folder(arguments.state), "local[2]") as application:
                done.append(_run(flow, application, data))
            print(done[-1], flush=True)
            kept.write_text(json.dumps([asdict(each) for each in done], indent=1) + "\n")
        with Application(_folder(arguments.state), "local[2]") as application:
            flow.start(application, **PLAN).wait_done()
        flow.assert_nothing_is_open()
        verdict = compare(flow.inputs(), flow.outputs(), exclaimed)
    text = _report(done, flow.produced, f"{verdict.faults}" if verdict.findings else "none")
    arguments.report.parent.mkdir(exist_ok=True)
    arguments.report.write_text(text, encoding="utf-8")
    print(text)
    bounded = all(each.ids <= MOST_IDS and each.bytes <= MOST_BYTES for each in done)
    return 0 if verdict.is_exactly_once and bounded else 1


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


def _run(flow: Flow, application: Application, data: Path) -> Stretch:
    flow.produce(STRETCH * RECORDS_PER_EPOCH)
    before = _epochs(flow)
    began = time.monotonic()
    query = flow.start(application, **PLAN)
    query.wait_batches(before + 1)
    started = time.monotonic()
    done = query.wait_done(STRETCH_TIMEOUT_S)
    ended = time.monotonic()
    left = Stretch(
        epochs=done.batches,
        start_s=round(started - began, 1),
        epoch_ms=round((ended - started) * 1_000 / (done.batches - before - 1), 1),
        ids=len(flow.transactional_ids()),
        bytes=sum(file.stat().st_size for file in data.glob(f"**/{DECISIONS}-*/*.log")),
    )
    flow.produce(RECORDS_PER_EPOCH)
    application.faults.arm("after-decision", "kill")
    flow.start(application, **PLAN)
    application.faults.wait_taken("after-decision")
    application.kill()
    return left


def _epochs(flow: Flow) -> int:
    """How many epochs Spark has logged as done."""
    numbers = [int(f.name) for f in (flow.checkpoint / "commits").glob("*") if f.name.isdigit()]
    return max(numbers, default=-1) + 1


def _folder(state: Path) -> Path:
    folder = state / f"application-{uuid.uuid4().hex[:8]}"
    folder.mkdir()
    return folder


def _report(done: list[Stretch], records: int, faults: str) -> str:
    rows = "\n".join(
        f"| {each.epochs:,} | {each.start_s} | {each.epoch_ms} | {each.ids} | {each.bytes:,} |"
        for each in done
    )
    return f"""# Soak: {done[-1].epochs:,} epochs

`make soak`. One broker, one query in epoch scope (`repartition(5)`), {RECORDS_PER_EPOCH} records an
epoch; after each row the driver was killed between a decision and the end of its transactions. A
start has that to settle. Transactional ids expire after a minute here instead of seven days, and
the decision topic's segments have 1 MiB instead of 4: to see in an hour what takes weeks.

| epochs | first epoch after the start, s | epoch, ms | transactional ids | decision topic, bytes |
|---|---|---|---|---|
{rows}

{records:,} records went in; lost, doubled, altered or unexpected: {faults}.
"""


if __name__ == "__main__":
    raise SystemExit(main())
