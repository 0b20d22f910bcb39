"""`Standalone`: a standalone master with workers, and jobs that are submitted to it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

from eoskafka.cluster.local import free_ports
from eoskafka.demo import processes
from eoskafka.demo.processes import Process

from harness.memory import MemoryLimit
from harness.waiting import until

_START_S = 60.0
_END_S = 30.0
_REGISTERED = re.compile("Registering worker")


def spark_home() -> Path:
    """Where pyspark is installed."""
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def start_process(
    command: list[str], folder: Path, log: Path, further: dict[str, str]
) -> subprocess.Popen[bytes]:
    """Start a process of Spark's, in a session of its own.

    Args:
        folder: that it runs in.
        log: what it says is added to this.
        further: environment variables, beside those that all of them have.
    """
    environment = {
        **os.environ,
        "SPARK_HOME": str(spark_home()),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        **further,
    }
    with log.open("ab") as out:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env=environment,
            start_new_session=True,
        )


class Submitted:
    """A job that spark-submit runs in client mode, with its driver and all that belongs to it."""

    def __init__(self, child: subprocess.Popen[bytes], log: Path) -> None:
        self._child = child
        self.log = log

    def wait(self, timeout_s: float) -> int:
        """Until it has ended; its exit code."""
        return self._child.wait(timeout_s)

    def is_running(self) -> bool:
        """Whether spark-submit runs."""
        return self._child.poll() is None

    def terminate(self) -> float:
        """SIGTERM to the driver's JVM; how long it takes to end, in seconds."""
        start = time.monotonic()
        self._child.terminate()
        self.wait(_END_S)
        return time.monotonic() - start

    def kill(self) -> None:
        """SIGKILL to the driver's JVM and its Python process."""
        while left := processes.of_session(self._child.pid):
            processes.send(left, signal.SIGKILL)
            self._child.wait(_END_S)

    def text(self) -> str:
        """What it has said."""
        return self.log.read_text(encoding="utf-8", errors="replace")


class Standalone:
    """A standalone cluster; a context manager that leaves no process behind.

    Args:
        folder: for logs, and what workers keep of their executors.
        workers: of one core each, on the master's host.
        host: the address of the master.
    """

    def __init__(self, folder: Path, workers: int = 2, host: str = "127.0.0.1") -> None:
        self._folder = folder
        self._size = workers
        self._host = host
        self._port = free_ports(1)[0]
        self._daemons: list[subprocess.Popen[bytes]] = []
        self._jobs: list[Submitted] = []

    @property
    def master(self) -> str:
        """For `--master`."""
        return f"spark://{self._host}:{self._port}"

    def __enter__(self) -> Standalone:
        try:
            self._daemon("master.Master", "--port", str(self._port), "--webui-port", "0")
            log = self._master_log()
            until(lambda: b"Starting Spark master" in log.read_bytes(), "the master", _START_S)
            self.add_workers(self._size)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def add_workers(
        self,
        count: int,
        host: str | None = None,
        space: str | None = None,
        limit: MemoryLimit | None = None,
    ) -> None:
        """Start further workers, and wait until the master has them.

        Args:
            host: their address, by default the master's.
            space: the network namespace that has this address, if it is not the master's.
            limit: of the memory of these workers and their executors.
        """
        known = len(_REGISTERED.findall(self._master_log().read_text()))
        for _ in range(count):
            self._daemon(
                *("worker.Worker", self.master, "--webui-port", "0"),
                *("--cores", "1", "--memory", "1g", "--work-dir", str(self._folder / "work")),
                host=host or self._host,
                space=space,
                limit=limit,
            )
        until(
            lambda: len(_REGISTERED.findall(self._master_log().read_text())) == known + count,
            "the workers",
            _START_S,
        )

    def close(self) -> None:
        """End everything."""
        for job in self._jobs:
            job.kill()
        for daemon in self._daemons:
            for process in processes.of_session(daemon.pid):
                process.id.send(signal.SIGKILL)
            daemon.wait(_END_S)

    def drivers(self) -> list[Process]:
        """The JVMs of drivers that run on workers, in cluster deploy mode."""
        return [p for p in self._of_workers() if "DriverWrapper" in p.command]

    def executors(self) -> list[Process]:
        """The JVMs of executors."""
        return [p for p in self._of_workers() if "CoarseGrainedExecutorBackend" in p.command]

    def decommission(self, executor: Process) -> None:
        """Tell the worker of an executor that its machine is about to go (SIGPWR)."""
        os.kill(executor.parent, signal.SIGPWR)

    def _of_workers(self) -> list[Process]:
        found = [p for daemon in self._daemons[1:] for p in processes.of_session(daemon.pid)]
        # A shell that has not become the JVM yet has the same command line.
        return [p for p in found if "java" in p.command.split(" ", 1)[0]]

    def submit(self, job: Path, arguments: list[str], *options: str) -> Submitted:
        """Submit a job; `options` are spark-submit's."""
        log = self._folder / f"job{len(self._jobs)}.log"
        small = {
            "spark.driver.memory": "768m",
            "spark.executor.memory": "512m",
            "spark.ui.enabled": "false",
            "spark.driver.host": "127.0.0.1",
        }
        settings = [word for item in small.items() for word in ("--conf", "=".join(item))]
        command = [
            *(str(spark_home() / "bin" / "spark-submit"), "--master", self.master),
            *(*settings, *options, str(job), *arguments),
        ]
        self._jobs.append(Submitted(self._start(command, log), log))
        return self._jobs[-1]

    def _master_log(self) -> Path:
        return self._folder / "master.Master-0.log"

    def _daemon(
        self,
        name: str,
        *arguments: str,
        host: str | None = None,
        space: str | None = None,
        limit: MemoryLimit | None = None,
    ) -> None:
        log = self._folder / f"{name}-{len(self._daemons)}.log"
        host = host or self._host
        command = [
            *(("ip", "netns", "exec", space) if space else ()),
            *(str(spark_home() / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}"),
            *("--host", host, *arguments),
        ]
        if limit:
            command = limit.command(command)
        self._daemons.append(self._start(command, log, host))

    def _start(
        self, command: list[str], log: Path, host: str = "127.0.0.1"
    ) -> subprocess.Popen[bytes]:
        further = {
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": "-Dspark.decommission.enabled=true",
            "SPARK_LOCAL_IP": host,
        }
        return start_process(command, self._folder, log, further)
