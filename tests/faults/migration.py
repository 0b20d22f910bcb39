"""`make migration`: a job goes from the built-in connector to eoskafka and back, under load.

One broker, four input partitions, a steady stream of records, one checkpoint. The job is stopped,
moved, killed and moved back, as `PHASES` says, and at last read to its end. What it has written is
counted by a reader of its own, and each record is put down to the phase that wrote it.

The built-in sink is at-least-once: if its job ends in the middle of a batch, the next phase writes
that batch again. Before each move, `eoskafka offsets adopt` is asked how many records that will be.

Exit code 0: no record is missing, and the only duplicates are records that the built-in sink wrote
first and that had been announced. 1: otherwise.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import defaultdict
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eoskafka import offsets
from eoskafka.audit import read_committed
from eoskafka.bench.peers import peer_jars
from eoskafka.cluster import LocalCluster
from eoskafka.offsets import Situation
from harness import Application, Flow, Query, until
from kafka import TopicPartition
from kafka.admin import OffsetSpec

from faults.feeder import Feeder

ROOT = Path(__file__).resolve().parent.parent.parent
RATE = 1_000
PARTITIONS = 4
# Of each phase: the connector, and how it ends. Before the way back to the built-in connector an
# open batch is finished, as docs/takeover.md says.
PHASES = (
    ("kafka", "stop"),
    ("eoskafka", "kill"),
    ("eoskafka", "finish"),
    ("kafka", "stop"),
    ("kafka", "kill"),
    ("eoskafka", "kill"),
    ("eoskafka", "drain"),
)


@dataclass(frozen=True)
class Phase:
    """What a phase has done.

    Attributes:
        form: the connector.
        end: how it ended.
        batches: that Spark has logged as done in all phases so far.
        told: records of an open batch of the built-in connector that the next phase writes again,
            as `adopt` told; None where it had nothing to tell.
        log_ends: of the output, by partition, when it had ended.
    """

    form: str
    end: str
    batches: int
    told: int | None
    log_ends: dict[int, int]


@dataclass(frozen=True)
class Verdict:
    """What came out.

    Attributes:
        sent: records that went in.
        missing: of them.
        written: by phase, how many records are in the output.
        again: by two phases, the one that wrote records first and the one that did so again: how
            many.
    """

    sent: int
    missing: int
    written: list[int]
    again: dict[tuple[int, int], int]


def main() -> int:
    """Move to and fro, judge, and write the report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=15, help="of each phase")
    parser.add_argument("--report", type=Path, default=ROOT / "reports" / "migration.md")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="eoskafka-migration-") as name:
        phases, verdict = migrate(Path(name), arguments.seconds)
    text = written(phases, verdict, arguments.seconds)
    arguments.report.parent.mkdir(parents=True, exist_ok=True)
    arguments.report.write_text(text, encoding="utf-8")
    print(text)
    return 0 if is_right(phases, verdict) else 1


def migrate(folder: Path, seconds: float) -> tuple[list[Phase], Verdict]:
    """Do all phases, and count what came of them."""
    with LocalCluster() as cluster:
        flow = Flow(cluster.bootstrap_servers, folder / "checkpoint", partitions=PARTITIONS)
        with closing(Feeder(flow.servers, flow.input, RATE)) as feeder:
            feeder.start()
            job = _Job(flow, folder)
            try:
                phases = [job.phase(form, end, seconds, feeder) for form, end in PHASES]
            finally:
                job.kill()
        return phases, judge(flow, phases)


class _Job:
    """The job, whichever connector it has."""

    def __init__(self, flow: Flow, folder: Path) -> None:
        self._flow = flow
        self._folder = folder
        self._application: Application | None = None
        self._started = 0

    def kill(self) -> None:
        if self._application:
            self._application.kill()
            self._application = None

    def phase(self, form: str, end: str, seconds: float, feeder: Feeder) -> Phase:
        query = self._start(form)
        query.wait_batches(query.status().batches + 1)
        # For so long; and until there is a batch to be cut off.
        time.sleep(seconds)
        batches = query.status().batches
        if end == "drain":
            feeder.close()
            until(lambda: self._flow.committed() == self._flow.ends(), "the input's end", 60)
        if end == "kill":
            assert self._application is not None
            self.kill()
        else:
            assert query.stop().error is None
        if end == "finish":
            self._start(form, interval=None).wait_done()
        return Phase(form, end, batches, self._told(), self._log_ends())

    def _start(self, form: str, interval: str | None = "0 seconds") -> Query:
        if self._application is None:
            self._started += 1
            folder = self._folder / f"application-{self._started}"
            folder.mkdir()
            jars = {"spark.jars": ",".join(map(str, peer_jars()))}
            self._application = Application(folder, "local[2]", jars).start()
        flow = self._flow
        source: dict[str, Any] = {"kafka.bootstrap.servers": flow.servers, "subscribe": flow.input}
        if form == "eoskafka":
            source["kafka.group.id"] = flow.group
        # In batches of a half second, so that most ends come in the middle of one.
        return flow.start(
            self._application,
            origin=form,
            form=form,
            interval=interval,
            startingOffsets="earliest",
            maxOffsetsPerTrigger=RATE // 2,
            **source,
        )

    def _told(self) -> int | None:
        """What `eoskafka offsets adopt` says of the checkpoint, which changes nothing."""
        found = offsets.adopt(
            self._flow.servers, str(self._flow.checkpoint), group=self._flow.group, dry_run=True
        )
        assert found.situation in (Situation.BUILT_IN, Situation.READY), found
        return found.open_records

    def _log_ends(self) -> dict[int, int]:
        with self._flow.admin() as admin:
            (topic,) = admin.describe_topics([self._flow.output])
            wanted = {
                TopicPartition(self._flow.output, each["partition_index"]): OffsetSpec.LATEST
                for each in topic["partitions"]
            }
            found = admin.list_partition_offsets(wanted)
        return {partition.partition: each.offset for partition, each in found.items()}


def judge(flow: Flow, phases: list[Phase]) -> Verdict:
    """Put each record of the output down to the phase that wrote it."""
    sent = {record.value for record in flow.inputs()}
    by_value: dict[bytes, list[int]] = defaultdict(list)
    written = [0] * len(phases)
    for record in read_committed(flow.servers, flow.output):
        number = next(
            n for n, phase in enumerate(phases) if record.offset < phase.log_ends[record.partition]
        )
        written[number] += 1
        by_value[(record.value or b"").removesuffix(b"!")].append(number)
    again: dict[tuple[int, int], int] = defaultdict(int)
    for numbers in by_value.values():
        first, *others = sorted(numbers)
        for other in others:
            again[first, other] += 1
    assert set(by_value) <= sent
    return Verdict(len(sent), len(sent - set(by_value)), written, dict(again))


def is_right(phases: list[Phase], verdict: Verdict) -> bool:
    """Whether nothing is missing, and nothing came twice that was not told."""
    told = all(
        phases[first].form == "kafka" and other == first + 1 and count <= (phases[first].told or 0)
        for (first, other), count in verdict.again.items()
    )
    return verdict.missing == 0 and told


def written(phases: list[Phase], verdict: Verdict, seconds: float) -> str:
    """The report."""
    twice: dict[int, int] = defaultdict(int)
    for (first, _), count in verdict.again.items():
        twice[first] += count
    lines = "\n".join(
        f"| {number + 1} | `{phase.form}` | {phase.end} | {phase.batches} "
        f"| {verdict.written[number]:,} | {'-' if phase.told is None else f'{phase.told:,}'} "
        f"| {twice[number]:,} |"
        for number, phase in enumerate(phases)
    )
    found = "as was told" if is_right(phases, verdict) else "NOT as was told"
    return f"""# Migration

`make migration`. One broker and one job on one machine, {PARTITIONS} partitions, {RATE:,} records a
second, {seconds:.0f} s a phase, one checkpoint for both connectors. {verdict.sent:,} records went
in; {verdict.missing:,} are missing. Those that came twice did so {found}.

"Open" is what `eoskafka offsets adopt` said after the phase: records of a batch of the built-in
connector that was not finished, which its at-least-once sink may have written.

| phase | connector | ended by | batches so far | records written | open | written again later |
|---|---|---|---|---|---|---|
{lines}
"""


if __name__ == "__main__":
    raise SystemExit(main())
