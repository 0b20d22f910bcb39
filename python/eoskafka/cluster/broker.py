"""One broker of a local cluster: its process, the signals sent to it, and when it is ready."""

from __future__ import annotations

import logging
import os
import shlex
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from eoskafka.cluster.jars import java, kafka_jars
from eoskafka.cluster.process import ProcessId
from eoskafka.errors import ClusterError

# Three JVMs starting on two busy cores take about 15 s; four times that means something is wrong.
START_TIMEOUT_S = 60.0
# A broker with thousands of partitions needs seconds to close its logs; after that it is killed,
# and recovers its logs at the next start.
STOP_TIMEOUT_S = 20.0

_ADMIN_TIMEOUT_MS = 5000
_POLL_SECONDS = 0.1
_LOG_TAIL_LINES = 30


class Broker:
    """A broker of a `LocalCluster`, which makes it; it keeps its ports and data over restarts.

    `kill`, `pause`, `resume` and `terminate` raise ClusterError if the broker does not run, and
    send nothing unless the process with its pid is the one that was started.
    """

    def __init__(
        self,
        *,
        node_id: int,
        port: int,
        controller_port: int,
        folder: Path,
        heap_mb: int,
        process: ProcessId | None,
        on_change: Callable[[], None],
        jars: Sequence[Path] | None = None,
    ) -> None:
        self.node_id = node_id
        self.port = port
        self.controller_port = controller_port
        self.folder = folder
        self.heap_mb = heap_mb
        self.process = process
        self._on_change = on_change
        self._jars = jars
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """`127.0.0.1:<port>`, as clients are told."""
        return f"127.0.0.1:{self.port}"

    def behind_proxy(self, port: int, proxy_port: int) -> dict[str, str]:
        """Settings for another listener, whose clients connect through a proxy.

        Brokers, and clients that connect to `address`, do not use the proxy.

        Args:
            port: the port of the listener, to which the proxy connects.
            proxy_port: the port of the proxy, which is advertised to the listener's clients.
        """
        controller = f"CONTROLLER://127.0.0.1:{self.controller_port}"
        direct = f"PLAINTEXT://{self.address}"
        return {
            "listeners": f"{controller},{direct},CLIENT://127.0.0.1:{port}",
            "advertised.listeners": f"{direct},CLIENT://127.0.0.1:{proxy_port}",
            "listener.security.protocol.map": (
                "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,CLIENT:PLAINTEXT"
            ),
            "inter.broker.listener.name": "PLAINTEXT",
        }

    @property
    def pid(self) -> int | None:
        """The broker's process id, or None while it does not run."""
        if self.process is not None and self.process.is_alive():
            return self.process.pid
        if self._child is not None:
            self._child.poll()  # takes the exit status, or our own child stays as a zombie
        return None

    @property
    def log_file(self) -> Path:
        """What the broker and its JVM print, over all its runs."""
        return self.folder / "broker.log"

    def kill(self) -> None:
        """End it at once (SIGKILL) and wait until it is gone."""
        process = self._send(signal.SIGKILL)
        if not process.wait(STOP_TIMEOUT_S) or self.pid is not None:
            raise ClusterError(
                f"broker {self.node_id} (pid {process.pid}) still runs after SIGKILL"
            )

    def pause(self) -> None:
        """Stop it from running, with its connections open (SIGSTOP)."""
        self._send(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on after `pause` (SIGCONT)."""
        self._send(signal.SIGCONT)

    def terminate(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Ask it to shut down in order (SIGTERM) and wait; ClusterError after `timeout_s`."""
        process = self._send(signal.SIGTERM)
        process.send(signal.SIGCONT)  # a paused process would not see the SIGTERM
        if not process.wait(timeout_s) or self.pid is not None:
            raise ClusterError(
                f"broker {self.node_id} (pid {process.pid}) did not shut down in {timeout_s:g} s; "
                f"it still runs: use kill(). Its log: {self.log_file}"
            )

    def start(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Start it on its own ports and data, and wait until it is ready.

        Raises ClusterError if it runs already, ends, or is not ready after `timeout_s` seconds.
        """
        self.launch()
        self.wait_ready(timeout_s)

    def launch(self) -> None:
        """Start the process and do not wait."""
        if self.pid is not None:
            raise ClusterError(f"broker {self.node_id} already runs as pid {self.pid}")
        command = [
            *kafka_command(self._jars or kafka_jars()),
            *(f"-Xmx{self.heap_mb}m", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"),
            *("-XX:+ExitOnOutOfMemoryError", "-Djava.awt.headless=true"),
            f"-Dlog4j2.configurationFile={self.folder / 'log4j2.properties'}",
            *("kafka.Kafka", str(self.folder / "server.properties")),
        ]
        with self.log_file.open("ab") as log:
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                start_new_session=True,  # Ctrl-C in a terminal is not meant for the broker
            )
        self._child = child
        self.process = ProcessId.of(child.pid)
        self._on_change()

    def wait_ready(self, timeout_s: float) -> None:
        """Wait until this broker answers and the cluster counts it as alive."""
        deadline = time.monotonic() + timeout_s
        while not self._is_ready():
            if self.pid is None:
                raise self._failure("ended while it was starting")
            if time.monotonic() > deadline:
                raise self._failure(f"was not ready after {timeout_s:g} s")
            time.sleep(_POLL_SECONDS)

    def _is_ready(self) -> bool:
        if not accepts_connections(self.port):
            return False
        from kafka.admin import KafkaAdminClient
        from kafka.errors import KafkaError

        from eoskafka.brokers.topics import nodes

        kafka_log = logging.getLogger("kafka")
        level = kafka_log.level
        kafka_log.setLevel(logging.CRITICAL)  # its warnings are what we wait out
        try:
            with KafkaAdminClient(
                bootstrap_servers=self.address,
                request_timeout_ms=_ADMIN_TIMEOUT_MS,
                bootstrap_timeout_ms=_ADMIN_TIMEOUT_MS,
            ) as admin:
                brokers = {b["broker_id"]: b for b in nodes(admin)}
                if self.node_id not in brokers or brokers[self.node_id].get("is_fenced"):
                    return False
                # The answer above may have come from another broker: ask this one something.
                admin.describe_log_dirs(brokers=[self.node_id])
                return True
        except (KafkaError, OSError):
            return False
        finally:
            kafka_log.setLevel(level)

    def _send(self, number: signal.Signals) -> ProcessId:
        if self.process is None or not self.process.send(number):
            raise ClusterError(
                f"broker {self.node_id} does not run, so it cannot get {number.name}. "
                f"Its log: {self.log_file}"
            )
        return self.process

    def _failure(self, what: str) -> ClusterError:
        return ClusterError(
            f"broker {self.node_id} {what}. Its log: {self.log_file}\n{_tail(self.log_file)}"
        )


def kafka_command(jars: Sequence[Path]) -> list[str]:
    """`java -cp <jars>`, to be followed by JVM options and a main class."""
    return [java(), "-cp", os.pathsep.join(str(jar) for jar in jars)]


def run_kafka_tool(jars: Sequence[Path], main_class: str, *arguments: str) -> None:
    """Run one of Kafka's own tools to its end; ClusterError with its output if it fails."""
    command = [*kafka_command(jars), "-XX:TieredStopAtLevel=1", main_class, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ClusterError(
            f"{shlex.join([main_class, *arguments])} ended with {done.returncode}:\n"
            f"{done.stdout}{done.stderr}"
        )


def accepts_connections(port: int) -> bool:
    """Whether somebody listens on this port of 127.0.0.1."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False


def _tail(path: Path) -> str:
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    return "\n".join(lines[-_LOG_TAIL_LINES:])
