"""The benchmarks' stage on a broker that a program may kill."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from eoskafka.bench.brokers import Brokers
from eoskafka.bench.stage import Stage, stage
from eoskafka.cluster import LocalCluster
from eoskafka.cluster.broker import Broker


class Phases:
    """Prints what happens."""

    def phase(self, text: str) -> None:
        """The next thing begins."""
        print(f"{text} ...", flush=True)


@contextmanager
def on_own_broker(folder: Path) -> Iterator[tuple[Broker, Stage]]:
    """A broker with its data in this folder, and a Spark session with every peer beside it."""
    with LocalCluster(brokers=1, data_dir=folder) as cluster:
        (broker,) = cluster.brokers
        with stage([], Phases(), brokers=Brokers(servers=cluster.bootstrap_servers)) as there:
            yield broker, there
