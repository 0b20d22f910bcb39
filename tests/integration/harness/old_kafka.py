"""A broker of Kafka 2.4, the last release before KIP-447, with its ZooKeeper."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from eoskafka.cluster.broker import accepts_connections
from eoskafka.cluster.jars import java
from eoskafka.cluster.local import free_ports

from harness import maven
from harness.waiting import until

_START_S = 60


@contextmanager
def old_broker(folder: Path) -> Iterator[str]:
    """Its address, `127.0.0.1:<port>`, while it runs. Its logs are in `folder`."""
    classes = os.pathsep.join(map(str, maven.jars("old-kafka")))
    zookeeper, kafka = free_ports(2)
    (folder / "zookeeper.properties").write_text(
        f"dataDir={folder / 'zookeeper'}\n"
        f"clientPort={zookeeper}\n"
        "clientPortAddress=127.0.0.1\n"
        "admin.enableServer=false\n"
    )
    (folder / "server.properties").write_text(
        "broker.id=1\n"
        f"listeners=PLAINTEXT://127.0.0.1:{kafka}\n"
        f"zookeeper.connect=127.0.0.1:{zookeeper}\n"
        f"log.dirs={folder / 'data'}\n"
        "offsets.topic.replication.factor=1\n"
        "offsets.topic.num.partitions=1\n"
        "transaction.state.log.replication.factor=1\n"
        "transaction.state.log.min.isr=1\n"
        "transaction.state.log.num.partitions=1\n"
    )
    started = []
    try:
        for main_class, name, port in (
            ("org.apache.zookeeper.server.quorum.QuorumPeerMain", "zookeeper", zookeeper),
            ("kafka.Kafka", "server", kafka),
        ):
            with (folder / f"{name}.log").open("wb") as log:
                started.append(
                    subprocess.Popen(
                        [
                            *(java(), "-Xmx256m", "-cp", classes, main_class),
                            str(folder / f"{name}.properties"),
                        ],
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=subprocess.STDOUT,
                    )
                )
            until(lambda port=port: accepts_connections(port), name, _START_S)  # type: ignore[misc]
        yield f"127.0.0.1:{kafka}"
    finally:
        for process in reversed(started):
            process.kill()
            process.wait()
