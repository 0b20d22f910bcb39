"""`CELLS`: each kind of query, and where each of them is interrupted."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eoskafka.audit import Record, UndecidedError
from harness import Action, Application, Flow, Point, until
from harness.flow import exclaimed

from corpus.outcome import (
    FINISHED,
    Marks,
    Outcome,
    end_of,
    in_files,
    marks,
    of_decisions,
    of_group,
    of_output,
    of_transactions,
)
from corpus.stage import Runtime, Stage

# Records of a micro-batch. There is one before the fault; the second or the third meets it.
PER_BATCH = 40
_JOB_ROWS = 20
_RUN_S = 90.0
_OUTPUT_S = 60.0
# Longer than a cell: batches of real-time mode end with their query.
_REAL_TIME = "10 minutes"
_SWALLOWS = Path(__file__).parent / "swallows.py"


class Kind:
    """A streaming query that runs until it has read what is there.

    Args:
        name: of the kind.
        how: as `Flow.start` has it.
    """

    def __init__(self, name: str, **how: Any) -> None:
        self.name = name
        self.how: dict[str, Any] = {"maxOffsetsPerTrigger": PER_BATCH, **how}

    def flow(self, stage: Stage, folder: Path) -> Flow:
        """Topics of its own."""
        return Flow(stage.servers(), folder / "checkpoint")

    def give(self, flow: Flow, batches: int) -> None:
        """Add so many batches to the input."""
        flow.produce(batches * PER_BATCH)

    def run(self, application: Application, flow: Flow) -> str:
        """Start it, and wait until it has ended; how it did."""
        try:
            query = flow.start(application, **self._how(flow))
            return end_of(query.wait_end(_RUN_S).error)
        except TimeoutError:
            return "did not end"
        except RuntimeError as error:
            return end_of(error)

    def reach(self, application: Application, flow: Flow, point: Point, action: Action) -> None:
        """Start it, and wait until it has come to `point` and was ended by it."""
        query = flow.reach(application, point, action, **self._how(flow))
        if action == "fail":
            query.wait_end(_RUN_S)

    def judge(self, flow: Flow) -> Outcome:
        """What came out, and where the group is."""
        return {**of_output(flow.inputs(), flow.outputs(), exclaimed), "group": of_group(flow)}

    def _how(self, flow: Flow) -> dict[str, Any]:
        return self.how


class _RealTime(Kind):
    """In real-time mode a query has no end: it is stopped once all output is there."""

    def __init__(self) -> None:
        super().__init__("real-time")
        self.how = {"real_time": _REAL_TIME}

    def run(self, application: Application, flow: Flow) -> str:
        query = flow.start(application, **self.how)

        def is_over() -> bool:
            if not query.status().active:
                return True
            try:
                return len(flow.outputs()) >= flow.produced
            except UndecidedError:
                return False

        try:
            until(is_over, "all output", _OUTPUT_S)
        except TimeoutError:
            query.stop()
            return "did not write all output"
        return end_of(query.stop().error)


class _OtherCluster(Kind):
    """The sink's cluster is not the source's."""

    def flow(self, stage: Stage, folder: Path) -> Flow:
        return Flow(stage.servers(), folder / "checkpoint", sink_servers=stage.servers("other"))


class _Files(Kind):
    """The sink is Spark's own, of files."""

    def judge(self, flow: Flow) -> Outcome:
        outputs = in_files(_files(flow))
        return {**of_output(flow.inputs(), outputs, exclaimed), "group": of_group(flow)}

    def _how(self, flow: Flow) -> dict[str, Any]:
        return {**self.how, "form": "json", "sink": {"path": str(_files(flow))}}


def _files(flow: Flow) -> Path:
    return flow.checkpoint.with_name("files")


class _Swallows(Kind):
    """The function of `foreachBatch` catches every error in the run that meets the fault."""

    def reach(self, application: Application, flow: Flow, point: Point, action: Action) -> None:
        application.faults.arm(point, action)
        program = [
            *(
                application.python,
                str(_SWALLOWS),
                flow.servers,
                flow.input,
                flow.group,
                flow.output,
            ),
            *(f"eoskafka-{flow.name}", str(flow.checkpoint), str(application.faults.folder)),
            str(PER_BATCH),
        ]
        with (application.folder / "swallows.log").open("ab") as log:
            subprocess.run(
                program,
                check=True,
                cwd=application.folder,
                stdout=log,
                stderr=subprocess.STDOUT,
                timeout=2 * _RUN_S,
            )
        application.faults.wait_taken(point, 0)


class _Job(Kind):
    """A batch job that writes the numbers from 0 on.

    Args:
        name: of the kind.
        is_named: whether it has a `writeId`.
    """

    def __init__(self, name: str, is_named: bool) -> None:
        super().__init__(name)
        self._is_named = is_named

    def give(self, flow: Flow, batches: int) -> None:
        """Its rows need no input."""

    def run(self, application: Application, flow: Flow) -> str:
        try:
            application.write(_JOB_ROWS, **self._options(flow))
        except RuntimeError as error:
            return end_of(error)
        return FINISHED

    def reach(self, application: Application, flow: Flow, point: Point, action: Action) -> None:
        application.faults.arm(point, action)
        self.run(application, flow)
        application.faults.wait_taken(point, 0)

    def judge(self, flow: Flow) -> Outcome:
        rows = [Record(0, n, f"k{n}".encode(), f"{n}".encode()) for n in range(_JOB_ROWS)]
        return of_output(rows, flow.outputs(), lambda row: row.value)

    def _options(self, flow: Flow) -> dict[str, Any]:
        return {
            "kafka.bootstrap.servers": flow.servers,
            "topic": flow.output,
            "transactionalIdPrefix": f"eoskafka-{flow.name}",
            **({"writeId": flow.name} if self._is_named else {}),
        }


@dataclass(frozen=True)
class Fault:
    """What happens to a query that has run before, with two more batches to read.

    Attributes:
        name: of the fault.
    """

    name: str

    def meet(self, kind: Kind, application: Application, flow: Flow) -> None:
        """Bring the query to it."""
        raise NotImplementedError


@dataclass(frozen=True)
class At(Fault):
    """At `point` the driver's process is killed, or the connector fails.

    Attributes:
        point: its file's name.
        action: what is done there.
    """

    point: Point = field(kw_only=True)
    action: Action = field(kw_only=True)

    def meet(self, kind: Kind, application: Application, flow: Flow) -> None:
        kind.give(flow, 2)
        kind.reach(application, flow, self.point, self.action)


class AtThenMore(At):
    """As `At`; afterwards there is one more batch to read."""

    def meet(self, kind: Kind, application: Application, flow: Flow) -> None:
        super().meet(kind, application, flow)
        kind.give(flow, 1)


@dataclass(frozen=True)
class Stopped(Fault):
    """It ends in order; afterwards there is one more batch to read."""

    def meet(self, kind: Kind, application: Application, flow: Flow) -> None:
        kind.give(flow, 1)
        require_finished(kind.run(application, flow))
        self.damage(flow)
        kind.give(flow, 1)

    def damage(self, flow: Flow) -> None:
        """What is done to its checkpoint."""


class CommitFileGone(Stopped):
    """Spark's file that says that the last batch is done is lost."""

    def damage(self, flow: Flow) -> None:
        for file in _last_commit_files(flow):
            file.unlink()


class CommitFileEmpty(Stopped):
    """Spark's file that says that the last batch is done is there and holds nothing."""

    def damage(self, flow: Flow) -> None:
        for file in _last_commit_files(flow):
            if file.name.startswith("."):
                file.unlink()  # its checksum
            else:
                file.write_bytes(b"")


def _last_commit_files(flow: Flow) -> list[Path]:
    files = list((flow.checkpoint / "commits").iterdir())
    last = max(int(file.name) for file in files if file.name.isdigit())
    return [file for file in files if file.name in (f"{last}", f".{last}.crc")]


def killed(*points: Point) -> list[Fault]:
    """The driver's process is killed at each of these."""
    return [At(point, point=point, action="kill") for point in points]


def failed(*points: Point) -> list[Fault]:
    """The connector fails at each of these."""
    return [At(f"{point}-fails", point=point, action="fail") for point in points]


CLEAN = Stopped("clean")
GONE = CommitFileGone("commit-file-gone")
EMPTY = CommitFileEmpty("commit-file-empty")

TASK = Kind("task")
STATEFUL = Kind("stateful", transform="grouped", mode="update")
FOREACH_BATCH = Kind("foreach-batch", form="foreach_batch")
SHARED = Kind("shared", ownership="shared")

HALF: Point = "half-rolled-forward"
EVERY_STEP: tuple[Point, ...] = ("before-decision", "after-decision", HALF, "before-log")

_CELLS: list[tuple[Kind, list[Fault]]] = [
    (
        TASK,
        [
            *(CLEAN, GONE, EMPTY),
            *killed("before-join", "after-join", "before-init"),
            *killed("after-flush", "after-offsets", "after-commit", "before-log"),
        ],
    ),
    (STATEFUL, [CLEAN, GONE, *killed("before-run", "after-flush", *EVERY_STEP)]),
    (FOREACH_BATCH, [CLEAN, GONE, *killed(*EVERY_STEP)]),
    (
        Kind("foreach-batch-again", form="foreach_batch_again"),
        failed("before-decision", "after-decision", "half-rolled-forward"),
    ),
    (
        _Swallows("foreach-batch-swallows", form="foreach_batch"),
        [
            *failed("before-decision", "half-rolled-forward"),
            AtThenMore("half-rolled-forward-fails-then-more", point=HALF, action="fail"),
        ],
    ),
    (_Job("job", is_named=True), [CLEAN, *killed(*EVERY_STEP)]),
    (_Job("job-without-name", is_named=False), killed("before-decision", "half-rolled-forward")),
    (_OtherCluster("other-cluster"), killed("after-decision", "half-rolled-forward", "before-log")),
    (SHARED, [CLEAN, *killed("after-lease", "after-offsets", "after-commit")]),
    (_Files("other-sink"), [CLEAN, GONE, *killed("after-join")]),
    (_RealTime(), [CLEAN, *killed("after-flush", "after-offsets", "after-commit")]),
]


@dataclass(frozen=True)
class Cell:
    """A kind of query at one fault.

    Attributes:
        kind: of query.
        fault: which it meets in its second run.
    """

    kind: Kind
    fault: Fault

    @property
    def name(self) -> str:
        """For options, files and reports."""
        return f"{self.kind.name}/{self.fault.name}"

    def run(self, stage: Stage, former: Runtime, new: Runtime, folder: Path) -> Outcome:
        """Bring a query to the fault on the former runtime, start it on the other one, and judge.

        Args:
            folder: for its checkpoint; an empty one.
        """
        flow = self.kind.flow(stage, folder)
        since = marks(flow.sink_servers)
        with stage.to_die(former) as application:
            self.interrupt(application, flow)
        return start(self.kind, stage, new, flow, since)

    def interrupt(self, application: Application, flow: Flow) -> None:
        """One batch, and then the fault."""
        if not isinstance(self.kind, _Job):  # a job runs once
            self.kind.give(flow, 1)
            require_finished(self.kind.run(application, flow))
        self.fault.meet(self.kind, application, flow)


def start(kind: Kind, stage: Stage, runtime: Runtime, flow: Flow, since: Marks) -> Outcome:
    """The start that a cell is about, and what it has left."""
    with stage.to_start(runtime) as application:
        end = kind.run(application, flow)
    # In this order: what is left open would hide what comes after it here.
    return {
        "end": end,
        "open": of_transactions(flow),
        **kind.judge(flow),
        "decisions": of_decisions(flow.sink_servers, since),
    }


def require_finished(end: str) -> None:
    """AssertionError unless a run that should finish has done so."""
    assert end == FINISHED, f"a run before the fault ended with {end}"


def live() -> Iterator[Cell]:
    """All cells that are made anew."""
    for kind, faults in _CELLS:
        for fault in faults:
            yield Cell(kind, fault)
