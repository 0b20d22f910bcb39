"""Who takes part in a benchmark, and the jars of those that are not the connector."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from eoskafka import _jar
from eoskafka.bench.errors import BenchError


@dataclass(frozen=True)
class Peer:
    """A Kafka connector of Spark, with its default settings.

    Attributes:
        name: in reports.
        format: Spark's name of its source and sink.
        guarantee: what a retry or a restart may do to its output.
    """

    name: str
    format: str
    guarantee: str


BUILT_IN = Peer("built-in", "kafka", "at-least-once")
EOSKAFKA = Peer("eoskafka", "eoskafka", "exactly-once")


@cache
def peer_jars() -> list[Path]:
    """Jars for a session's `spark.jars`: Spark's built-in connector with a stand-in for its token
    module, kafka-clients under its own name, and the loader of the input.

    Built with Maven, in a checkout only.

    Raises:
        BenchError: there is no checkout, no Maven, or the build failed.
    """
    root = _jar.checkout()
    if root is None:
        raise BenchError(
            "the benchmark's peers are built from a checkout of eoskafka, and this is an installed "
            "package. Clone the repository and run `make bench` there."
        )
    mvn = shutil.which("mvn")
    if mvn is None:
        raise BenchError("the benchmark's peers are built with Maven: install the command mvn")
    # Each time: Maven compiles only what has changed, and a stale peer would spoil the figures.
    command = [
        *(mvn, "-q", "-B", "-f", str(root / "jvm-shim" / "pom.xml")),
        *("-pl", "bench-peers", "package", "-DskipTests", "-Dstyle.color=never"),
    ]
    done = subprocess.run(command, stdout=sys.stderr, check=False)
    if done.returncode != 0:
        raise BenchError(
            f"Maven could not build the peers (exit code {done.returncode}, see above)"
        )
    return sorted((root / "jvm-shim" / "bench-peers" / "target" / "peers").glob("*.jar"))
