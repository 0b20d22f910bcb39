"""What a JVM holds after a garbage collection, and whether that grows in the course of a soak."""

from __future__ import annotations

import re
import shutil
import statistics
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil
from eoskafka.cluster.jars import java

_MIB = 1024 * 1024
# Pools of Spark's that keep a thread for a minute: how many they have goes with epochs per second.
_SPARK_POOLS = (
    "ResultQueryStageExecution",
    "QueryStageCreator",
    "shuffle-exchange",
    "block-manager-ask-thread-pool",
    "block-manager-storage-async-thread-pool",
)
_JAVA_THREAD = re.compile(r'^"(.+)" #\d+', re.MULTILINE)


@dataclass(frozen=True)
class Held:
    """What a JVM has at one time.

    Attributes:
        heap_mib: after a full collection.
        metaspace_mib: classes.
        resident_mib: of the process, after that collection.
        threads: of Java, without Spark's pools.
        files: that it has open, sockets included.
    """

    heap_mib: float
    metaspace_mib: float
    resident_mib: float
    threads: int
    files: int


def held(pid: int) -> Held:
    """What the JVM with this process id has now."""
    _tool("jcmd", str(pid), "GC.run")
    names, values = (line.split() for line in _tool("jstat", "-gc", str(pid)).splitlines()[:2])
    kib = dict(zip(names, values, strict=True))
    process = psutil.Process(pid)
    return Held(
        heap_mib=sum(float(kib[part]) for part in ("S0U", "S1U", "EU", "OU")) / 1024,
        metaspace_mib=float(kib["MU"]) / 1024,
        resident_mib=process.memory_info().rss / _MIB,
        threads=_threads(pid),
        files=process.num_fds(),
    )


def _threads(pid: int) -> int:
    """How many Java threads the JVM has, Spark's pools left out."""
    names = _JAVA_THREAD.findall(_tool("jcmd", str(pid), "Thread.print"))
    return sum(not name.startswith(_SPARK_POOLS) for name in names)


def ends(values: Sequence[float]) -> tuple[float, float]:
    """The medians of the first and the last third."""
    third = max(1, len(values) // 3)
    return statistics.median(values[:third]), statistics.median(values[-third:])


def _tool(name: str, *arguments: str) -> str:
    """What one of the JDK's tools says."""
    beside = Path(shutil.which(java()) or java()).resolve().parent / name
    done = subprocess.run([beside, *arguments], capture_output=True, text=True, check=True)
    return done.stdout
