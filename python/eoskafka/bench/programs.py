"""Peers in JVMs of their own: see `PeerProgram` in jvm-shim/bench-programs, and `FlinkCopy`."""

from __future__ import annotations

import select
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType

from eoskafka.bench.errors import BenchError
from eoskafka.bench.peers import FLINK, Peer, program_jars
from eoskafka.cluster.broker import kafka_command

# For one run, however large: a budget, not a measure.
RUN_TIMEOUT_S = 1_800.0

_MAIN = "io.eoskafka.bench.PeerProgram"
_FLINK_MAIN = "io.eoskafka.bench.FlinkCopy"
# As a benchmark's Spark session has.
_HEAP = "-Xmx2g"


class Program:
    """A peer's JVM. It is started here and stays, so that it is warm as Spark's is.

    Args:
        peer: one with a `program`.
        bootstrap_servers: `host:port,...`.
        folder: for its settings and what it prints.
    """

    def __init__(self, peer: Peer, bootstrap_servers: str, folder: Path) -> None:
        assert peer.program is not None
        self._peer = peer
        self._log = folder / f"{peer.id}.log"
        settings = folder / f"{peer.id}.properties"
        settings.write_text(
            "".join(
                f"{client}.{name}={value}\n"
                for client, pairs in peer.clients().items()
                for name, value in pairs.items()
            ),
            encoding="utf-8",
        )
        command = [
            *kafka_command(program_jars(peer)),
            *(_HEAP, f"-Djava.io.tmpdir={folder}"),
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            _FLINK_MAIN if peer.program == FLINK.program else _MAIN,
            *(peer.program, bootstrap_servers, str(settings)),
        ]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )

    @property
    def pid(self) -> int:
        """Of its JVM."""
        return self._process.pid

    def run(self, source: str, sink: str, name: str) -> float:
        """Copy one topic to another; how long that took, in milliseconds.

        Args:
            source: topic to read, from its beginning to its present end.
            sink: topic to write.
            name: of group and transactional ids, new to the cluster.

        Raises:
            BenchError: it failed.
        """
        self._tell(f"{source} {sink} {name}")
        return int(self._answer()) / 1e6

    @contextmanager
    def following(self, source: str, sink: str, name: str, interval_ms: int) -> Iterator[None]:
        """Copy what comes while the block runs, and commit at this interval.

        The other arguments and the errors are those of `run`.
        """
        self._tell(f"{source} {sink} {name} {interval_ms}")
        self._answer()
        yield
        self._tell("")
        self._answer()

    def failure(self) -> str | None:
        """Why it has ended; None while it runs."""
        code = self._process.poll()
        return None if code is None else f"its JVM has ended with exit code {code}"

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None
        # One that has ended gives no answer, and that says why.
        with suppress(BrokenPipeError):
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        there, _, _ = select.select([self._process.stdout], [], [], RUN_TIMEOUT_S)
        if answer := self._process.stdout.readline() if there else "":
            return answer.strip()
        problem = "has ended" if there else f"has not answered within {RUN_TIMEOUT_S:g} s"
        said = self._log.read_text(encoding="utf-8", errors="replace")[-3_000:]
        raise BenchError(f"{self._peer.label} {problem}:\n{said}")

    def __enter__(self) -> Program:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.communicate()
