"""The benchmarks' stage on a broker that a program may kill."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from eoskafka.bench.brokers import Brokers
from eoskafka.bench.stage import Stage, stage
from eoskafka.cluster import LocalCluster
from eoskafka.cluster.broker import Broker

# As a benchmark's broker has.
_HEAP_MB = 1024


class Phases:
    """Prints what happens."""

    def phase(self, text: str) -> None:
        """The next thing begins."""
        print(f"{text} ...", flush=True)


@contextmanager
def on_own_broker(
    folder: Path, properties: Mapping[str, str] | None = None
) -> Iterator[tuple[Broker, Stage]]:
    """A broker with its data in this folder, and a Spark session with every peer beside it."""
    with LocalCluster(data_dir=folder, heap_mb=_HEAP_MB, properties=properties) as cluster:
        (broker,) = cluster.brokers
        with stage([], Phases(), brokers=Brokers(servers=cluster.bootstrap_servers)) as there:
            yield broker, there
