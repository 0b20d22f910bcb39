"""Cells whose first half is a file in `stored/`: a checkpoint, and its broker's data.

Only a query without open transactions can be kept so: they would time out in storage. The broker
keeps everything else for as long as its settings can say. It has its former node id and cluster id;
its ports may be others, since it registers them each time it starts.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from eoskafka.cluster import LocalCluster
from eoskafka.cluster.local import free_ports
from harness import Flow

from corpus.cells import CLEAN, FOREACH_BATCH, SHARED, STATEFUL, TASK, Cell, killed, start
from corpus.outcome import Outcome
from corpus.stage import Runtime, Stage

FOLDER = Path(__file__).resolve().parent / "stored"

SPARKS = ("4.0.5", "4.1.4", "4.3.0")

_FOREVER = str(2**31 - 1)
_BROKER = {
    # Offsets of a group without members, records of topics, and transactional ids.
    "offsets.retention.minutes": _FOREVER,
    "log.retention.ms": "-1",
    "transaction.remove.expired.transaction.cleanup.interval.ms": _FOREVER,
    # The files are small.
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "log.index.size.max.bytes": "4096",
    "log.segment.bytes": str(1024 * 1024),
}
_KAFKA = "kafka"
_CHECKPOINT = "checkpoint"
_ABOUT = "about.json"
_CLUSTER = "cluster.json"
# What a cluster writes anew when it starts, or has said.
_NOT_KEPT = {"server.properties", "log4j2.properties", "broker.log", ".lock"}


@dataclass(frozen=True)
class Stored:
    """A cell that is kept in a file.

    Attributes:
        cell: it.
        spark: the version that it ran on, or empty for Spark 4.2 and the first connector.
    """

    cell: Cell
    spark: str = ""

    @property
    def name(self) -> str:
        """For options, files and reports."""
        return f"stored/{self._short}"

    @property
    def file(self) -> Path:
        """The checkpoint, the broker's data, and what `about.json` says."""
        return FOLDER / f"{self._short}.tar.gz"

    @property
    def _short(self) -> str:
        return f"{self.cell.kind.name}{self.spark and '-on-spark-'}{self.spark}"

    def store(self, stage: Stage, runtime: Runtime, label: str, folder: Path) -> None:
        """Make the file anew.

        Args:
            runtime: what the query runs on.
            label: of its jar, to be kept in the file.
            folder: for the cluster and the checkpoint; an empty one.
        """
        with LocalCluster(data_dir=folder / _KAFKA, properties=_BROKER) as cluster:
            flow = Flow(cluster.bootstrap_servers, folder / _CHECKPOINT)
            with stage.to_die(runtime) as application:
                self.cell.interrupt(application, flow)
            flow.assert_nothing_is_open()
        about = {"flow": flow.name, "connector": label, "fault": self.cell.fault.name}
        (folder / _ABOUT).write_text(json.dumps(about) + "\n", encoding="utf-8")
        FOLDER.mkdir(exist_ok=True)
        with tarfile.open(self.file, "w:gz") as archive:
            for name in (_ABOUT, _CHECKPOINT, _KAFKA):
                archive.add(folder / name, name, filter=_kept)

    def run(self, stage: Stage, _former: Runtime, new: Runtime, folder: Path) -> Outcome:
        """Start the stored query on the new runtime, and judge.

        Args:
            folder: where the file is unpacked; an empty one.
        """
        with tarfile.open(self.file) as archive:
            archive.extractall(folder, filter="data")
        about = json.loads((folder / _ABOUT).read_text(encoding="utf-8"))
        _move_ports(folder / _KAFKA / _CLUSTER)
        with LocalCluster(data_dir=folder / _KAFKA, properties=_BROKER) as cluster:
            flow = Flow(cluster.bootstrap_servers, folder / _CHECKPOINT, name=about["flow"])
            return start(self.cell.kind, stage, new, flow, {})


def _kept(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if Path(entry.name).name in _NOT_KEPT:
        return None
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def _move_ports(file: Path) -> None:
    """Let the cluster listen where nobody else does now."""
    state = json.loads(file.read_text(encoding="utf-8"))
    for broker in state["brokers"]:
        broker["port"], broker["controller_port"] = free_ports(2)
        broker["pid"] = broker["started"] = None
    file.write_text(json.dumps(state), encoding="utf-8")


def stored() -> Iterator[Stored]:
    """All cells that are kept in files."""
    (before_log,) = killed("before-log")
    yield Stored(Cell(TASK, CLEAN))
    yield Stored(Cell(STATEFUL, before_log))
    yield Stored(Cell(FOREACH_BATCH, before_log))
    yield Stored(Cell(SHARED, CLEAN))
    for spark in SPARKS:
        yield Stored(Cell(TASK, CLEAN), spark)
        yield Stored(Cell(STATEFUL, before_log), spark)
        yield Stored(Cell(FOREACH_BATCH, before_log), spark)
