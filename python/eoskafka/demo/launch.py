"""`SparkJob`: starts the demo's job, and knows its processes and how far it is."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from eoskafka.demo import processes
from eoskafka.demo.errors import DemoError
from eoskafka.demo.processes import Process

EXECUTORS = 2

_EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
_PYTHON_DAEMON = "pyspark.daemon"
_DRIVER = "org.apache.spark.deploy.SparkSubmit"
_END_TIMEOUT_S = 10.0
_LOG_TAIL_LINES = 15


@dataclass(frozen=True)
class Progress:
    """How far the job is, by its checkpoint.

    Attributes:
        batches: finished micro-batches.
        records: input records in them.
    """

    batches: int
    records: int


class SparkJob:
    """The job of one checkpoint, over all its runs.

    Args:
        folder: for logs, checkpoint and everything that Spark writes.
        arguments: of `eoskafka.demo.job`, without `--checkpoint` and `--start-file`.
    """

    def __init__(self, folder: Path, arguments: Sequence[str]) -> None:
        self.folder = folder
        self.log = folder / "job.log"
        self.checkpoint = folder / "checkpoint"
        self._start_file = folder / "input-is-there"
        self._arguments = list(arguments)
        self._home = _spark_home(folder / "spark")
        self._child: subprocess.Popen[bytes] | None = None
        self._sessions: list[int] = []
        self._progress = Progress(0, 0)

    def start(self) -> None:
        """Start the first run. It reads nothing before `release`; Spark needs its time to start."""
        command = [sys.executable, "-m", "eoskafka.demo.job", *self._arguments]
        with self.log.open("ab") as log:
            self._child = subprocess.Popen(
                [
                    *command,
                    *("--checkpoint", str(self.checkpoint)),
                    *("--start-file", str(self._start_file)),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                env=self._environment(),
                start_new_session=True,
            )
        self._sessions.append(self._child.pid)

    def release(self) -> None:
        """The input is there: this run and all later ones read it."""
        self._start_file.touch()

    def exit_code(self) -> int | None:
        """Of the last run: None while it runs, negative if a signal ended it."""
        return None if self._child is None else self._child.poll()

    def driver(self) -> list[Process]:
        """The driver of the last run: its Python process and its JVM, once both are there."""
        return [
            p for p in self._running() if p.id.pid == self._sessions[-1] or _DRIVER in p.command
        ]

    def executors(self) -> list[Process]:
        """The executors of the last run."""
        return [process for process in self._running() if _EXECUTOR in process.command]

    def orphans(self) -> list[Process]:
        """Processes of earlier runs; executors of a killed driver end soon after it."""
        return [p for session in self._sessions[:-1] for p in processes.of_session(session)]

    def has_worker(self, executor: Process) -> bool:
        """Whether an executor has started Python workers, without which it makes no output."""
        return any(
            process.parent == executor.id.pid and _PYTHON_DAEMON in process.command
            for process in self._running()
        )

    def progress(self) -> Progress:
        """What the checkpoint says is finished."""
        commits = _batches(self.checkpoint / "commits")
        if commits and len(commits) != self._progress.batches:
            self._progress = Progress(len(commits), _offset_sum(self.checkpoint, max(commits)))
        return self._progress

    def restart(self) -> None:
        """Start the next run after the driver was killed; its executors may still be ending."""
        if self._child is not None:
            self._child.wait(_END_TIMEOUT_S)
        self.start()

    def end(self) -> None:
        """End every process that this job has started and that still runs."""
        for session in self._sessions:
            # Again and again: one of them may have started another after the list was made.
            while left := processes.of_session(session):
                processes.send(left, signal.SIGKILL)
                for process in left:
                    process.id.wait(_END_TIMEOUT_S)
        if self._child is not None:
            self._child.wait(_END_TIMEOUT_S)

    def failure(self, what: str) -> DemoError:
        """An error that shows the end of the log and says where the rest is."""
        tail = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        shown = "\n".join(tail[-_LOG_TAIL_LINES:])
        return DemoError(f"{what}. Its log: {self.log}\n{shown}")

    def _running(self) -> list[Process]:
        return processes.of_session(self._sessions[-1]) if self._sessions else []

    def _environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "SPARK_HOME": str(self._home),
            # Everything that listens does so here: driver, executors, and the little master and
            # worker that local-cluster mode has.
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(self.folder / "spark-tmp"),
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            # JVMs that live for seconds start faster with the first compiler and the simplest
            # collector; what they leave when they are killed goes into the demo's own folder.
            "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData "
            f"-Djava.io.tmpdir={self._home / 'tmp'}",
            # A shell's settings for other jobs are not for this one.
            "PYSPARK_SUBMIT_ARGS": "pyspark-shell",
        }


def _spark_home(folder: Path) -> Path:
    """A SPARK_HOME of links to pyspark's own files.

    local-cluster mode writes its executors' logs to `$SPARK_HOME/work`, which should be neither
    among the installed libraries nor left behind.
    """
    spec = find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise DemoError("pyspark is not installed: pip install 'eoskafka[local]'")
    folder.mkdir(parents=True)
    for entry in Path(spec.submodule_search_locations[0]).iterdir():
        if entry.name != "work":
            (folder / entry.name).symlink_to(entry)
    (folder / "tmp").mkdir()
    return folder


def _batches(folder: Path) -> list[int]:
    if not folder.is_dir():
        return []
    return [int(file.name) for file in folder.iterdir() if file.name.isdigit()]


def _offset_sum(checkpoint: Path, batch: int) -> int:
    """The sum of a batch's end offsets, which for the demo's input is a number of records."""
    # Spark's offset log: a version, the batch's metadata, then one line for each source.
    source = (checkpoint / "offsets" / str(batch)).read_text(encoding="utf-8").splitlines()[2]
    return sum(end for partitions in json.loads(source).values() for end in partitions.values())
