"""`Yarn`: a resource manager and a node manager on this machine, and jobs submitted to them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
from eoskafka.cluster.local import free_ports
from eoskafka.cluster.process import ProcessId
from eoskafka.demo.processes import Process
from eoskafka.errors import ClusterError

from harness import maven
from harness.standalone import Submitted, spark_home, start_process
from harness.waiting import until

_START_S = 90.0
_END_S = 30.0
_NAMES = ("resourcemanager.ResourceManager", "nodemanager.NodeManager")
_LOGGING = """
rootLogger.level = info
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{HH:mm:ss.SSS} %p %c{1}: %m%n%ex
"""
_PROPERTY = "<property><name>{}</name><value>{}</value></property>"


class Yarn:
    """A cluster of one node; a context manager that leaves no process behind.

    Containers are processes of this user: the node manager limits nothing.

    Args:
        folder: for settings, logs, and what containers keep.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._conf = folder / "conf"
        self._daemons: list[subprocess.Popen[bytes]] = []
        self._jobs: list[Submitted] = []

    def __enter__(self) -> Yarn:
        try:
            self._configure()
            for name in _NAMES:
                self._daemon(name)
            log = self._log(_NAMES[0])
            until(
                lambda: b"Transitioned from NEW to RUNNING" in log.read_bytes(),
                "the node manager",
                _START_S,
                lambda: log.read_text()[-3000:],
            )
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End everything."""
        for job in self._jobs:
            job.kill()
        for daemon in self._daemons:
            daemon.kill()
            daemon.wait(_END_S)
        while left := self._containers():
            for process in left:
                process.id.send(signal.SIGKILL)
                process.id.wait(_END_S)

    def submit(self, job: Path, arguments: list[str], *options: str) -> Submitted:
        """Submit a Python job; `options` are spark-submit's, such as `--deploy-mode cluster`."""
        log = self._folder / f"job{len(self._jobs)}.log"
        settings = {
            "spark.driver.memory": "768m",
            "spark.executor.memory": "512m",
            "spark.executor.instances": "2",
            "spark.ui.enabled": "false",
            # Not a copy of them for each job.
            "spark.yarn.jars": f"local:{spark_home() / 'jars'}/*",
            "spark.yarn.stagingDir": (self._folder / "staging").as_uri(),
            **{
                f"{place}.{name}": value
                for place in ("spark.yarn.appMasterEnv", "spark.executorEnv")
                for name, value in (("PYSPARK_PYTHON", sys.executable),)
            },
        }
        command = [
            *(str(spark_home() / "bin" / "spark-submit"), "--master", "yarn"),
            *(word for item in settings.items() for word in ("--conf", "=".join(item))),
            *(*options, str(job), *arguments),
        ]
        self._jobs.append(Submitted(self._start(command, log), log))
        return self._jobs[-1]

    def drivers(self) -> list[Process]:
        """The JVMs of drivers that run in containers, in cluster deploy mode."""
        return [p for p in self._containers() if ".yarn.ApplicationMaster " in p.command]

    def executors(self) -> list[Process]:
        """The JVMs of executors."""
        return [p for p in self._containers() if "YarnCoarseGrainedExecutorBackend" in p.command]

    def logs(self) -> list[Path]:
        """Of the daemons, the jobs and the containers."""
        return [*self._folder.glob("*.log"), *self._folder.glob("logs/**/std*")]

    def _containers(self) -> list[Process]:
        """Processes of jobs: each has a session of its own, and its folders in its command line."""
        found = []
        for process in psutil.process_iter():
            try:
                words = process.cmdline()
                if any(str(self._folder / "logs") in word for word in words) and (
                    process.pid not in {daemon.pid for daemon in self._daemons}
                ):
                    ident = ProcessId.of(process.pid)
                    found.append(Process(ident, process.ppid(), " ".join(words)))
            except (psutil.Error, ClusterError):  # it has just ended
                continue
        # A shell that has started the JVM has the same command line.
        return [p for p in found if "java" in p.command.split(" ", 1)[0]]

    def _configure(self) -> None:
        self._conf.mkdir(parents=True)
        names = [
            *(f"resourcemanager.{part}address" for part in ("", "scheduler.", "admin.", "webapp.")),
            *(f"nodemanager.{part}address" for part in ("", "localizer.", "webapp.")),
            "resourcemanager.resource-tracker.address",
        ]
        ports = free_ports(len(names))
        scheduler = "org.apache.hadoop.yarn.server.resourcemanager.scheduler.fifo.FifoScheduler"
        settings = {
            **{name: f"127.0.0.1:{port}" for name, port in zip(names, ports, strict=True)},
            "resourcemanager.hostname": "127.0.0.1",
            "resourcemanager.scheduler.class": scheduler,
            # As often as a job asks for it.
            "resourcemanager.am.max-attempts": "10",
            "nodemanager.hostname": "127.0.0.1",
            "nodemanager.resource.memory-mb": "8192",
            "nodemanager.resource.cpu-vcores": "8",
            "nodemanager.local-dirs": str(self._folder / "local"),
            "nodemanager.log-dirs": str(self._folder / "logs"),
            "nodemanager.disk-health-checker.enable": "false",
            "nodemanager.vmem-check-enabled": "false",
            "scheduler.minimum-allocation-mb": "128",
        }
        self._write("yarn-site", {f"yarn.{name}": value for name, value in settings.items()})
        self._write("core-site", {"fs.defaultFS": "file:///"})
        (self._conf / "log4j2.properties").write_text(_LOGGING, encoding="utf-8")

    def _write(self, name: str, settings: dict[str, str]) -> None:
        lines = [_PROPERTY.format(*item) for item in settings.items()]
        text = "\n".join(["<configuration>", *lines, "</configuration>", ""])
        (self._conf / f"{name}.xml").write_text(text, encoding="utf-8")

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.log"

    def _daemon(self, name: str) -> None:
        spark = spark_home() / "jars"
        (client,) = spark.glob("hadoop-client-api-*.jar")
        hadoop = client.stem.removeprefix("hadoop-client-api-")
        jars = [str(jar) for jar in maven.jars("yarn", f"hadoop.version={hadoop}")]
        path = os.pathsep.join([str(self._conf), *jars, f"{spark}/*"])
        command = ["java", "-Xmx256m", "-cp", path, f"org.apache.hadoop.yarn.server.{name}"]
        self._daemons.append(self._start(command, self._log(name)))

    def _start(self, command: list[str], log: Path) -> subprocess.Popen[bytes]:
        further = {"HADOOP_CONF_DIR": str(self._conf), "SPARK_LOCAL_IP": "127.0.0.1"}
        return start_process(command, self._folder, log, further)
