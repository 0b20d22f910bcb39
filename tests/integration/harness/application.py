"""`Application`: a Spark application in processes of its own, and the queries that run in it."""

from __future__ import annotations

import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from eoskafka.demo import processes
from eoskafka.demo.processes import Process
from eoskafka.schemas.jar import with_limits

from harness import tally
from harness.archive import archive_options, spark_folder
from harness.faults import Faults
from harness.waiting import until

START_TIMEOUT_S = 90.0
# Of an application whose driver gives an executor up that says nothing for five seconds.
IMPATIENT_DRIVER = {
    "spark.executor.heartbeatInterval": "1s",
    "spark.network.timeout": "5s",
    "spark.network.timeoutInterval": "1s",
}
_ANSWER_TIMEOUT_S = 60.0
_END_TIMEOUT_S = 20.0
_LOG_TAIL_LINES = 40

_EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
_ATTEMPT_ENDED = re.compile(
    r"^\S+ (\d+) \S+ Executor: (?:Finished|Exception in|Executor .*killed) task", re.MULTILINE
)
_TAKES_TASKS = re.compile(r"^\S+ (\d+) INFO ExecutorPluginContainer: Initialized", re.MULTILINE)
# Straight to a file: what executors print goes through their worker, which is in the driver's JVM
# and does not run while a test stops the driver.
_EXECUTOR_LOGGING = """
rootLogger.level = info
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {file}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{HH:mm:ss.SSS}} %pid %p %c{{1}}: %m%n%ex
"""
_JOB = Path(__file__).parent / "job.py"

# Small and quick to start: these tests move a few thousand records.
_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_SETTINGS = {
    "spark.app.name": "eoskafka-test",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "768m",
    "spark.executor.memory": "512m",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100",
}


@dataclass(frozen=True)
class Status:
    """Of a query.

    Attributes:
        active: whether it runs.
        error: what ended it, or None.
        batches: number of finished batches, over all runs of its checkpoint.
    """

    active: bool
    error: str | None
    batches: int


class Application:
    """A Spark application; a context manager that leaves no process behind.

    Args:
        folder: for its logs and everything that Spark writes.
        master: `local[n]`, `local-cluster[n,1,1024]`, or `two-hosts` or `five-hosts`: an executor
            on each of what Spark takes for so many hosts, as speculation needs.
        settings: further Spark settings.
        python: the interpreter of the environment whose Spark it runs on, or None for this one's.
    """

    def __init__(
        self,
        folder: Path,
        master: str,
        settings: Mapping[str, str] | None = None,
        python: Path | None = None,
    ) -> None:
        self.folder = folder
        self.faults = Faults(folder / "faults", self.tail)
        self.log = folder / "application.log"
        self._master = master
        self.python = str(python or sys.executable)
        self.executor_log = folder / "executors.log"
        logging = folder / "log4j2.properties"
        logging.write_text(_EXECUTOR_LOGGING.format(file=self.executor_log), encoding="utf-8")
        java = with_limits(
            f"{_JVM} {archive_options(self.python)} -Dio.eoskafka.faults={self.faults.folder}"
        )
        self._settings = {
            **_SETTINGS,
            "spark.driver.extraJavaOptions": java,
            "spark.executor.extraJavaOptions": f"{java} -Dlog4j2.configurationFile={logging}",
            **(settings or {}),
        }
        self._child: subprocess.Popen[str] | None = None
        self._answers: queue.Queue[str] = queue.Queue()
        self._queries: list[Query] = []
        self._log_start = 0

    def start(self) -> Application:
        """Start it and wait until it takes queries."""
        home = _spark_home(self.folder / "spark", self.python)
        spec = self.folder / "application.json"
        content = {"master": self._master, "settings": self._settings, "work": f"{home}/work"}
        spec.write_text(json.dumps(content), encoding="utf-8")
        with self.log.open("ab") as log:
            self._child = subprocess.Popen(
                [self.python, str(_JOB), str(spec)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=self.folder,
                env=self._environment(home),
                start_new_session=True,
            )
        threading.Thread(target=self._listen, daemon=True).start()
        self._answer(START_TIMEOUT_S)
        return self

    def __enter__(self) -> Application:
        try:
            return self.start()
        except BaseException:
            self.kill()  # __exit__ is not called if this fails or is interrupted
            raise

    def __exit__(self, *error: object) -> None:
        self.kill()

    def query(self, name: str, **command: Any) -> Query:
        """Start a query; see `Flow.start` for the usual way."""
        self._ask({"do": "start", "name": name, **command})
        self._queries.append(Query(self, name))
        return self._queries[-1]

    def write(self, rows: int, *, start: int = 0, form: str = "eoskafka", **options: str) -> None:
        """A batch write of so many numbers, in four partitions; RuntimeError if it fails.

        Args:
            start: the first number.
            form: the format.
            options: of the format.
        """
        self._ask({"do": "write", "rows": rows, "start": start, "format": form, "options": options})

    def read(self, **source: str) -> list[str]:
        """The values that a batch query reads with these options."""
        values: list[str] = self._ask({"do": "read", "source": source})["values"]
        return values

    def sql(self, text: str) -> list[list[str]]:
        """The rows that a statement returns, as text."""
        rows: list[list[str]] = self._ask({"do": "sql", "text": text})["rows"]
        return rows

    def explain(self, **source: str) -> list[str]:
        """Plans over a source with these options, in every form in which Spark prints one."""
        plans: list[str] = self._ask({"do": "explain", "source": source})["plans"]
        return plans

    def driver(self) -> list[Process]:
        """The Python process and its JVM."""
        return [p for p in self._processes() if _EXECUTOR not in p.command and _is_main(p)]

    def driver_jvm(self) -> int:
        """The process id of the driver's JVM."""
        (jvm,) = (each for each in self.driver() if "SparkSubmit" in each.command)
        return jvm.id.pid

    def executors(self) -> list[Process]:
        """The executors that run now, oldest first."""
        return [p for p in self._processes() if _EXECUTOR in p.command and "java" in p.command]

    def wait_executors(self, count: int) -> list[Process]:
        """Wait until that many executors run and take tasks."""

        def all_there() -> list[Process] | None:
            found = self.executors()
            ready = {int(pid) for pid in _TAKES_TASKS.findall(self._executors_said())}
            return found if len(found) == count and ready >= {p.id.pid for p in found} else None

        return until(all_there, f"{count} executors", START_TIMEOUT_S, self.tail)

    def pause(self, pid: int) -> None:
        """Stop one of its processes from running (SIGSTOP)."""
        self._send([p for p in self._processes() if p.id.pid == pid], signal.SIGSTOP)

    def resume(self, pid: int | None = None) -> None:
        """Let a stopped process go on, or all of them."""
        chosen = [p for p in self._processes() if pid is None or p.id.pid == pid]
        self._send(chosen, signal.SIGCONT)

    @contextmanager
    def lent(self, logs: list[Path]) -> Iterator[Application]:
        """For one test of several: faults and queries end with it, `logs` learns of its logs."""
        self._log_start += len(self.text())
        try:
            yield self
        finally:
            logs += self.logs()
            self.faults.clear()
            self.resume()
            for query in self._queries:
                query.stop()
            self._queries.clear()

    def pause_all(self) -> None:
        """Stop driver and executors from running."""
        self._send(self._processes(), signal.SIGSTOP)

    def pause_driver(self) -> None:
        """Stop the driver's Python process and its JVM from running."""
        self._send(self.driver(), signal.SIGSTOP)

    def kill_driver(self) -> None:
        """SIGKILL the driver's Python process and its JVM, and wait until they are gone."""
        self._kill(self.driver())

    def kill(self) -> None:
        """SIGKILL everything of this application, and wait until it is gone."""
        if self._child is None:
            return
        # Again and again: one of them may have started another after the list was made.
        while left := self._processes():
            self._kill(left)

    def is_running(self) -> bool:
        """Whether its Python process runs."""
        return self._child is not None and self._child.poll() is None

    def logs(self) -> list[Path]:
        """The logs of the driver and of every executor that there was, and what they printed."""
        return [self.log, self.executor_log, *sorted(self.folder.glob("spark/work/**/std*"))]

    def text(self) -> str:
        """The driver's log so far, of this test if the application is lent."""
        return self.log.read_text(encoding="utf-8", errors="replace")[self._log_start :]

    def ended_attempts(self, pid: int | None = None) -> int:
        """How many task attempts the executors, or one, have ended in any way, by their own log."""
        ended_by = map(int, _ATTEMPT_ENDED.findall(self._executors_said()))
        return sum(1 for each in ended_by if pid in (None, each))

    def tail(self) -> str:
        """The end of the driver's log, for errors."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join([f"{self.log}:", *lines[-_LOG_TAIL_LINES:]])

    def _executors_said(self) -> str:
        if not self.executor_log.exists():
            return ""
        return self.executor_log.read_text(encoding="utf-8", errors="replace")

    def _ask(self, command: dict[str, Any]) -> dict[str, Any]:
        assert self._child is not None
        assert self._child.stdin is not None
        self._child.stdin.write(json.dumps(command) + "\n")
        self._child.stdin.flush()
        return self._answer(_ANSWER_TIMEOUT_S)

    def _answer(self, timeout_s: float) -> dict[str, Any]:
        try:
            line = self._answers.get(timeout=timeout_s)
        except queue.Empty:
            line = ""
        if not line:
            raise RuntimeError(f"the application does not answer. {self.tail()}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _listen(self) -> None:
        assert self._child is not None
        assert self._child.stdout is not None
        for line in self._child.stdout:
            self._answers.put(line)
        self._answers.put("")

    def _processes(self) -> list[Process]:
        return [] if self._child is None else processes.of_session(self._child.pid)

    def _send(self, chosen: list[Process], number: signal.Signals) -> None:
        processes.send(chosen, number)

    def _kill(self, victims: list[Process]) -> None:
        processes.send(victims, signal.SIGKILL)
        tally.add("kills", len(victims))
        for victim in victims:
            if victim.id.pid == (self._child.pid if self._child else None):
                assert self._child is not None
                self._child.wait(_END_TIMEOUT_S)
            victim.id.wait(_END_TIMEOUT_S)

    def _environment(self, home: Path) -> dict[str, str]:
        return {
            **os.environ,
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(self.folder / "spark-tmp"),
            "PYSPARK_PYTHON": self.python,
            "PYSPARK_DRIVER_PYTHON": self.python,
            # A shell's settings for other jobs are not for this one.
            "PYSPARK_SUBMIT_ARGS": "pyspark-shell",
            # Python workers unpickle the transforms by their module's name.
            "PYTHONPATH": os.pathsep.join(
                filter(None, (str(_JOB.parent.parent), os.environ.get("PYTHONPATH")))
            ),
        }


class Query:
    """A streaming query of an application."""

    def __init__(self, application: Application, name: str) -> None:
        self.application = application
        self.name = name

    def status(self) -> Status:
        """How it is now."""
        return self._tell("status")

    def stop(self) -> Status:
        """Stop it in order, as a user does."""
        return self._tell("stop")

    def report(self) -> dict[str, Any]:
        """What it shows: `plan`, `progress`, `error` with all causes, and `python`: in pyspark."""
        return self.application._ask({"do": "report", "name": self.name})

    def wait_end(self, timeout_s: float = 90) -> Status:
        """Wait until it has ended, with or without an error."""

        def ended() -> Status | None:
            status = self.status()
            return None if status.active else status

        return until(ended, f"the end of query {self.name}", timeout_s, self.application.tail)

    def wait_done(self, timeout_s: float = 90) -> Status:
        """Wait until it has ended without an error."""
        status = self.wait_end(timeout_s)
        assert status.error is None, status.error
        return status

    def wait_batches(self, count: int, timeout_s: float = 60) -> Status:
        """Wait until so many batches are finished."""

        def there() -> Status | None:
            status = self.status()
            assert status.active, status.error
            return status if status.batches >= count else None

        return until(there, f"batch {count} of query {self.name}", timeout_s, self.application.tail)

    def _tell(self, what: str) -> Status:
        return Status(**self.application._ask({"do": what, "name": self.name}))


class StartApplication(Protocol):
    """Starts an application that ends with the test."""

    def __call__(
        self,
        master: str,
        given: Mapping[str, str] | None = None,
        /,
        *,
        python: Path | None = None,
        **settings: str,
    ) -> Application:
        """With settings as they are, and further ones that have `_` for `.` in their names.

        Args:
            python: as `Application` has it.
        """


@contextmanager
def applications(folder: Path, logs: list[Path]) -> Iterator[StartApplication]:
    """What starts applications, each in a folder of its own; they end with the block.

    Args:
        logs: learns of their logs.
    """
    started: list[Application] = []

    def start(
        master: str,
        given: Mapping[str, str] | None = None,
        /,
        *,
        python: Path | None = None,
        **settings: str,
    ) -> Application:
        dotted = {key.replace("_", "."): value for key, value in settings.items()}
        everything = {**(given or {}), **dotted}
        started.append(Application(folder / f"app{len(started)}", master, everything, python))
        return started[-1].start()

    try:
        yield start
    finally:
        for application in started:
            application.kill()
            logs += application.logs()


def _is_main(process: Process) -> bool:
    return str(_JOB) in process.command or "org.apache.spark.deploy.SparkSubmit" in process.command


def _spark_home(folder: Path, python: str) -> Path:
    """A SPARK_HOME of links to pyspark's files: executors write their logs to its folder `work`."""
    folder.mkdir(parents=True)
    for entry in spark_folder(python).iterdir():
        if entry.name != "work":
            (folder / entry.name).symlink_to(entry)
    return folder
