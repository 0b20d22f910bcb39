"""`Stranger`: a consumer of another application that joins a query's group."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from eoskafka.cluster.jars import java, kafka_jars

from harness import maven
from harness.waiting import until

_CLIENTS = Path(__file__).parent / "clients"
_START_S = 60


class Stranger:
    """What it has said so far."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._lines: queue.Queue[str] = queue.Queue()
        self._heard: list[tuple[str, str]] = []
        threading.Thread(target=self._listen, daemon=True).start()

    def wait_given(self) -> None:
        """Wait until it has partitions."""
        until(lambda: self._last("partitions") not in (None, "0"), "its partitions", _START_S)

    def wait_refused(self) -> str:
        """Wait until the broker has refused it, and return the error's class."""
        return until(lambda: self._last("refused"), "a refusal", _START_S)

    def refusals(self) -> int:
        """How often the broker has refused it."""
        return [what for what, _ in self._hear()].count("refused")

    def partitions(self) -> int:
        """How many partitions it has, 0 before it is given any."""
        return int(self._last("partitions") or 0)

    def read(self) -> int:
        """How many records it has been given."""
        return int(self._last("records") or 0)

    def kill(self) -> None:
        """SIGKILL: it does not leave the group."""
        self._process.kill()
        self._process.wait()

    def leave(self) -> None:
        """Let its process end, which leaves the group where the client does."""
        self._process.terminate()
        self._process.wait()

    def _last(self, what: str) -> str | None:
        return next((value for name, value in reversed(self._hear()) if name == what), None)

    def _hear(self) -> list[tuple[str, str]]:
        while not self._lines.empty():
            name, _, value = self._lines.get().partition(" ")
            self._heard.append((name, value))
        return self._heard

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line.strip())


@contextmanager
def stranger(
    kind: str, servers: str, topic: str, group: str, log: Path, *settings: str
) -> Iterator[Stranger]:
    """A consumer with its client's defaults, which tries to be in the group inside the block.

    Args:
        kind: `classic` and `consumer`: Kafka's Java client with that group protocol; `console`:
            `kafka-console-consumer.sh`, which says nothing of partitions; `python`: kafka-python.
        log: the file that its client's log goes to.
        settings: further ones, as `name=value`; not for `console` and `python`.
    """
    arguments = [servers, topic, group, *settings]
    if kind == "python":
        command = [sys.executable, str(_CLIENTS / "stranger.py"), *arguments]
    else:
        tools = maven.kafka_tools() if kind == "console" else []
        classes = os.pathsep.join(map(str, [*tools, *kafka_jars()]))
        source = str(_CLIENTS / ("Console.java" if kind == "console" else "Stranger.java"))
        command = [java(), "-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", classes, source]
        command += [*arguments, f"group.protocol={kind}"]
    with (
        log.open("wb") as file,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=file, text=True) as process,
    ):
        found = Stranger(process)
        try:
            yield found
        finally:
            found.kill()
