"""`Stage`: the brokers and Spark applications that cells share, since their starts take longest."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from eoskafka.cluster import LocalCluster
from harness import Application
from matrix.environments import python_of

_MASTER = "local[2]"
_JAR = "EOSKAFKA_JAR"


@dataclass(frozen=True)
class Runtime:
    """What an application runs on.

    Attributes:
        jar: the connector's.
        spark: a version of Spark, or empty for the one of this environment.
    """

    jar: Path
    spark: str = ""


class Stage:
    """A context manager that leaves no process behind.

    Args:
        folder: for the brokers' data and the applications' logs; an empty one.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._clusters: dict[str, LocalCluster] = {}
        self._starters: dict[Runtime, Application] = {}
        self._started = 0

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def clear(self) -> None:
        """End everything; what is asked for afterwards is new."""
        for application in self._starters.values():
            application.kill()
        for cluster in self._clusters.values():
            cluster.purge()
        self._starters.clear()
        self._clusters.clear()

    def servers(self, name: str = "kafka") -> str:
        """The address of a cluster of one broker, which is started when it is first asked for."""
        if name not in self._clusters:
            self._clusters[name] = LocalCluster(data_dir=self._folder / name)
            self._clusters[name].start()
        return self._clusters[name].bootstrap_servers

    @contextmanager
    def to_die(self, runtime: Runtime) -> Iterator[Application]:
        """An application of its own, which a fault may kill."""
        with using(runtime.jar), self._new(runtime) as application:
            yield application

    @contextmanager
    def to_start(self, runtime: Runtime) -> Iterator[Application]:
        """The application in which all starts on a runtime are made; a new one if it has died."""
        found = self._starters.get(runtime)
        if found is None or not found.is_running():
            with using(runtime.jar):
                found = self._starters[runtime] = self._new(runtime)
                found.start()
        with found.lent([]):
            yield found

    def _new(self, runtime: Runtime) -> Application:
        python = python_of(runtime.spark) if runtime.spark else None
        return Application(self._place(), _MASTER, python=python)

    def _place(self) -> Path:
        self._started += 1
        return self._folder / f"application-{self._started}"


@contextmanager
def using(jar: Path) -> Iterator[None]:
    """Programs that are started inside the block have this jar."""
    before = os.environ.get(_JAR)
    os.environ[_JAR] = str(jar)
    try:
        yield
    finally:
        if before is None:
            del os.environ[_JAR]
        else:
            os.environ[_JAR] = before
