"""The brokers that a benchmark runs on: a user's, or some of its own, near or far away."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from eoskafka.bench.errors import BenchError
from eoskafka.bench.peers import delay_line_jars
from eoskafka.cluster import LocalCluster
from eoskafka.cluster.broker import Broker, kafka_command
from eoskafka.cluster.local import free_ports

_MAIN = "io.eoskafka.bench.DelayLine"
_HEAP_MB = 1024
# Three of them share the machine with everything else.
_HEAP_OF_THREE_MB = 640
_PROPERTIES = {
    # Deleted output would stay on the disk for a minute more, and a round is over sooner.
    "log.segment.delete.delay.ms": "1000",
    # Kafka's default is 3 s; without any, the threads of one program join one after another, and
    # partitions move while it is timed.
    "group.initial.rebalance.delay.ms": "100",
}


@dataclass(frozen=True)
class Brokers:
    """The brokers of a benchmark.

    Attributes:
        servers: the addresses of a user's cluster, `host:port,...`; None starts brokers here.
        count: 1 or 3; with 3, everything is replicated three times.
        round_trip_ms: the network round trip between brokers and peers. There is no such delay
            between brokers, or for the clients that write the input and read the output.
    """

    servers: str | None = None
    count: int = 1
    round_trip_ms: float = 0.0

    def text(self) -> str:
        """For a report; empty for the brokers that are the default."""
        several = f"{self.count} brokers" if self.count > 1 else ""
        far = f"{self.round_trip_ms:g} ms away" if self.round_trip_ms else ""
        return ", ".join(filter(None, (several, far)))

    def as_json(self) -> dict[str, float] | None:
        """For a file; None for a user's, of which nothing is known."""
        if self.servers is not None:
            return None
        return {"count": self.count, "round_trip_ms": self.round_trip_ms}


NEARBY = Brokers()


@dataclass(frozen=True)
class Addresses:
    """The addresses of the brokers.

    Attributes:
        of_peers: the addresses that the peers connect to.
        direct: the addresses for the clients that write the input and read the output.
        pid: the process id of the only broker; None if there are several, or on a user's cluster.
    """

    of_peers: str
    direct: str
    pid: int | None


@contextmanager
def running(wanted: Brokers) -> Iterator[Addresses]:
    """Start them if they are not a user's, and stop them afterwards.

    Raises:
        BenchError: what puts them far away cannot be built or started.
        ClusterError: a broker does not start.
    """
    if wanted.servers is not None:
        yield Addresses(wanted.servers, wanted.servers, None)
        return
    listeners: dict[int, tuple[int, int]] = {}

    def properties(broker: Broker) -> Mapping[str, str]:
        if not wanted.round_trip_ms:
            return _PROPERTIES
        far, near = free_ports(2)
        listeners[broker.node_id] = far, near
        return {**_PROPERTIES, **broker.behind_proxy(near, far)}

    heap_mb = _HEAP_MB if wanted.count == 1 else _HEAP_OF_THREE_MB
    with (
        LocalCluster(brokers=wanted.count, heap_mb=heap_mb, properties=properties) as cluster,
        ExitStack() as closing,
    ):
        direct = of_peers = cluster.bootstrap_servers
        if wanted.round_trip_ms:
            closing.enter_context(_delay_line(wanted.round_trip_ms, listeners.values()))
            of_peers = ",".join(f"127.0.0.1:{far}" for far, _ in listeners.values())
        pid = cluster.brokers[0].pid if wanted.count == 1 else None
        yield Addresses(of_peers, direct, pid)


@contextmanager
def _delay_line(round_trip_ms: float, ports: Iterable[tuple[int, int]]) -> Iterator[None]:
    command = [
        *kafka_command(delay_line_jars()),
        *("-Xmx256m", "-XX:+ExitOnOutOfMemoryError", _MAIN, str(round(round_trip_ms * 500))),
        *(f"{far}:{near}" for far, near in ports),
    ]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            if not process.stdout.readline():
                raise BenchError(f"the proxy has exited with code {process.wait()}")
            yield
        finally:
            process.kill()
