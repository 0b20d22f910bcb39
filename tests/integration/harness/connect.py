"""A server of Spark Connect with this connector, and a program that is its client."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from eoskafka.session import PLUGIN_CLASS, jar_path

from harness.archive import archive_options
from harness.faults import Faults
from harness.waiting import until

_CLIENT = Path(__file__).with_name("connect_client.py")
_SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


class ConnectServer:
    """A server in a process of its own, until the block ends.

    Args:
        folder: for its log and its fault points.
        settings: further ones, which replace those that bring the connector if they name them.
    """

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self.url = f"sc://127.0.0.1:{self.port}"
        self.folder = folder
        self.faults = Faults(folder / "faults")
        self.log = folder / "connect.log"
        self._settings = {
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(self.port),
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.extraJavaOptions": f"{_JVM} {archive_options()} "
            f"-Dio.eoskafka.faults={self.faults.folder}",
            "spark.jars": os.environ.get("EOSKAFKA_JAR") or str(jar_path()),
            "spark.plugins": PLUGIN_CLASS,
            "spark.sql.shuffle.partitions": "2",
            "spark.ui.enabled": "false",
            **(settings or {}),
        }
        self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        command = [str(Path(sys.executable).with_name("spark-submit")), "--master", "local[2]"]
        for name, value in self._settings.items():
            command += ["--conf", f"{name}={value}"]
        with self.log.open("ab") as out:
            process = subprocess.Popen(
                [*command, "--driver-memory", "768m", "--class", _SERVER, "spark-internal"],
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                env={**os.environ, "PYSPARK_PYTHON": sys.executable},
            )

        def is_up() -> bool:
            assert process.poll() is None, self.log.read_text(encoding="utf-8")[-4_000:]
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", self.port)) == 0

        until(is_up, "the Connect server", 90)
        return process

    def wait_killed(self) -> None:
        """Until a fault point has killed it."""
        assert self._process.wait(60) == -signal.SIGKILL

    def kill(self) -> None:
        """SIGKILL."""
        self._process.kill()
        self._process.wait(60)

    def restart(self) -> None:
        """Start it again, at the same address."""
        self._process = self._start()

    def __enter__(self) -> ConnectServer:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(60)


class Client:
    """A client program, which does one thing after another: see `connect_client.py`."""

    def __init__(self, url: str, log: Path) -> None:
        self._log = log
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                [sys.executable, str(_CLIENT), url],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=out,
                text=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )

    def ask(self, what: str, **spec: Any) -> dict[str, Any]:
        """What it has to say when it is done."""
        self.begin(what, **spec)
        return self.answer()

    def begin(self, what: str, **spec: Any) -> None:
        """Let it begin, and do not wait."""
        print(json.dumps({"what": what, **spec}), file=self._pipe(self._process.stdin), flush=True)

    def answer(self) -> dict[str, Any]:
        """Of what was begun."""
        line = self._pipe(self._process.stdout).readline()
        assert line, self._log.read_text(encoding="utf-8")[-4_000:]
        answer: dict[str, Any] = json.loads(line)
        return answer

    @staticmethod
    def _pipe(pipe: IO[str] | None) -> IO[str]:
        assert pipe is not None
        return pipe

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        # It may wait for a server that is gone.
        self._process.kill()
        self._process.communicate()
