"""What a driver's process holds: threads, memory, connections and clients of Kafka."""

from __future__ import annotations

import re
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

import psutil
from eoskafka.bench.stage import Stage

# Threads of Kafka's clients and of this connector.
CLIENTS = re.compile(r"kafka-|eoskafka")
# Clients rest, connections close, and the heap is as large as it stays.
SETTLED_S = 20.0


@dataclass(frozen=True)
class Footprint:
    """What the driver's process has.

    Attributes:
        threads: of Kafka's clients and the connector, by the first words of their names.
        heap_mb: in use after a garbage collection.
        resident_mb: of the process.
        connections: to the broker.
        clients: of Kafka, by kind.
    """

    threads: Counter[str]
    heap_mb: float
    resident_mb: float
    connections: int
    clients: Counter[str]


def footprint(there: Stage) -> Footprint:
    """What the driver's process has now."""
    time.sleep(SETTLED_S)
    for _ in range(2):
        there.clear_heap()
    jvm: Any = there.spark._jvm
    process = psutil.Process(there.spark_pid)
    ports = {int(each.rpartition(":")[2]) for each in there.addresses.direct.split(",")}
    names = [thread.getName() for thread in jvm.Thread.getAllStackTraces().keySet()]
    beans = jvm.java.lang.management.ManagementFactory.getPlatformMBeanServer()
    infos = beans.queryNames(jvm.javax.management.ObjectName("kafka.*:type=app-info,id=*"), None)
    return Footprint(
        threads=Counter(map(kind_of, filter(CLIENTS.match, names))),
        heap_mb=heap_mb(there),
        resident_mb=process.memory_info().rss / 2**20,
        connections=sum(
            1 for each in process.net_connections("tcp") if each.raddr and each.raddr.port in ports
        ),
        clients=Counter(str(each.getDomain()).removeprefix("kafka.") for each in infos),
    )


def heap_mb(there: Stage) -> float:
    """What is in use after a garbage collection."""
    there.clear_heap()
    jvm: Any = there.spark._jvm
    runtime = jvm.Runtime.getRuntime()
    return float(runtime.totalMemory() - runtime.freeMemory()) / 2**20


def kind_of(name: str) -> str:
    """The name of a thread without what comes after its first words."""
    return re.split(r"[^A-Za-z-]", name)[0].rstrip("-")[:40] or name
