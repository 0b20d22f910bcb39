"""`make costs`: what a batch costs the brokers, by its scope, its tasks and its partitions.

Each case is a query whose tasks write to each output partition in each batch. It runs with few
batches and, from another input, with many. The difference between the two runs is that of the
batches: what a start costs is in both. Requests are counted in the broker's log, bytes are those of
the files of topics, and markers are the offsets of the output that are no records.

`eoskafka size` reckons with what is fitted to the cases: a part for each batch, one for each task,
and one for each partition that a task reads or writes.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
from eoskafka.audit import read_committed
from eoskafka.cluster import LocalCluster
from requestlog import log
from requestlog.__main__ import connector, during, logged
from streams import Streams

ROOT = Path(__file__).resolve().parents[2]
REPORT = ROOT / "python" / "eoskafka" / "costs.json"
SCOPES = ("task", "epoch")
TASKS = (1, 4)
# Of one task: partitions that it reads, and those that it writes to.
PARTITIONS = ((1, 1), (1, 16), (1, 64), (8, 16))
FEW, MANY = 10, 60
# What a batch costs, and what it costs for each task, and for each partition of each task.
PARTS = ("batch", "task", "input", "output")
LEAST = 0.05
RUN_S = 300
# Kafka's own topics, and the connector's, by what the report calls them.
TOPICS = {
    "transactionLogBytes": "__transaction_state",
    "offsetsBytes": "__consumer_offsets",
    "decisionBytes": "__eoskafka_decisions",
}
# The files grow only: nothing is removed from them while they are measured.
BROKER = {"log.cleaner.backoff.ms": str(24 * 60 * 60 * 1_000)}


@dataclass(frozen=True)
class Case:
    """One query.

    Attributes:
        scope: of its transactions.
        tasks: of a batch.
        inputs: partitions that each task reads.
        outputs: partitions that each task writes to.
    """

    scope: str
    tasks: int
    inputs: int
    outputs: int


@dataclass(frozen=True)
class Spent:
    """What a run has cost.

    Attributes:
        requests: how many, without those whose number depends on timing.
        sizes: bytes of the topics, by the names of the report.
        markers: in the output topic.
    """

    requests: int
    sizes: dict[str, int]
    markers: int


def main() -> int:
    """Measure all cases, and write the report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--report", type=Path, default=REPORT)
    report: Path = parser.parse_args().report
    cases = [Case(s, tasks, *of) for s in SCOPES for tasks in TASKS for of in PARTITIONS]
    with tempfile.TemporaryDirectory(prefix="eoskafka-costs-") as name:
        found = [*measure(Path(name), cases)]
    fits = {}
    for scope in SCOPES:
        own = [place for place, case in enumerate(cases) if case.scope == scope]
        fits[scope] = fitted([cases[place] for place in own], [found[place] for place in own])
    written = {
        "_": "Written by `make costs`; of one batch, with transaction.version=2.",
        "connector": connector(),
        "fits": fits,
        "cases": [{**asdict(case), **costs} for case, costs in zip(cases, found, strict=True)],
    }
    report.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")
    print(f"{report} was written")
    return 0


def measure(folder: Path, cases: list[Case]) -> Iterator[dict[str, float]]:
    """The costs of one batch in each case."""
    with logged(folder, max(TASKS), BROKER) as (streams, cluster):
        for case in cases:
            few, many = (spent(streams, cluster, case, n) for n in (FEW, MANY))
            found = per_batch(few, many)
            print(case, json.dumps(found), flush=True)
            yield found


def spent(streams: Streams, cluster: LocalCluster, case: Case, batches: int) -> Spent:
    """Run the query of a case with this many batches."""
    source, output = streams.topic(case.tasks * case.inputs), streams.topic(case.outputs)
    for partition in range(case.tasks * case.inputs):
        streams.send(source, *range(batches * case.outputs), partition=partition)
    options = {"maxOffsetsPerPartition": case.outputs, "slots": case.tasks}
    rows = streams.source(source, options).selectExpr(
        "key", "value", f"cast(offset % {case.outputs} as int) as partition"
    )
    writer = streams.sink(rows, output, options={"transactionScope": case.scope})
    before = sizes(cluster.data_dir)
    requests = during(
        streams.servers, cluster.brokers[0].log_file, partial(streams.run, writer, RUN_S)
    )
    after = sizes(cluster.data_dir)
    records = sum(1 for _ in read_committed(streams.servers, output))
    assert records == batches * case.tasks * case.inputs * case.outputs, f"{records} in {case}"
    return Spent(
        sum(request.name not in log.TIMED for request in requests),
        {name: after[name] - before[name] for name in TOPICS},
        sum(streams.ends(output, case.outputs).values()) - records,
    )


def sizes(data: Path) -> dict[str, int]:
    """The bytes of the topics' records in a broker's folder."""
    files = [*data.rglob("*.log")]
    return {
        name: sum(f.stat().st_size for f in files if f.parent.name.startswith(f"{topic}-"))
        for name, topic in TOPICS.items()
    }


def per_batch(few: Spent, many: Spent) -> dict[str, float]:
    """The difference between two runs, for each batch that one has more."""
    more = MANY - FEW
    return {
        "markers": (many.markers - few.markers) / more,
        "requests": (many.requests - few.requests) / more,
        **{name: (many.sizes[name] - few.sizes[name]) / more for name in TOPICS},
    }


def fitted(cases: list[Case], found: list[dict[str, float]]) -> dict[str, dict[str, float]]:
    """What each cost is made of, for `eoskafka size`, and how far it is from a case at most."""
    of_cases = np.array([[1, c.tasks, c.tasks * c.inputs, c.tasks * c.outputs] for c in cases])
    fits = {}
    for name in found[0]:
        measured = np.array([each[name] for each in found])
        factors = np.zeros(len(PARTS))
        taking_part = [*range(len(PARTS))]
        while True:
            solved, *_ = np.linalg.lstsq(of_cases[:, taking_part], measured, rcond=None)
            kept = [part for part, f in zip(taking_part, solved, strict=True) if f >= LEAST]
            if kept == taking_part:
                break
            # Nothing becomes cheaper with more tasks or partitions: it has no part in this cost.
            taking_part = kept
        factors[taking_part] = solved
        away = np.abs(of_cases @ factors - measured) / np.maximum(measured, 1)
        fits[name] = {
            **{part: round(float(f), 2) for part, f in zip(PARTS, factors, strict=True)},
            "away": round(float(away.max()), 3),
        }
    return fits


if __name__ == "__main__":
    raise SystemExit(main())
