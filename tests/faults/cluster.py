"""`FaultyCluster`: brokers that their clients reach through proxies."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from eoskafka.brokers.groups import partition_of
from eoskafka.cluster import LocalCluster
from eoskafka.cluster.broker import Broker
from eoskafka.cluster.local import free_ports
from kafka.admin import KafkaAdminClient

from faults.proxy import Proxy

_TRANSACTIONS = "__transaction_state"
_GROUPS = "__consumer_offsets"


class FaultyCluster:
    """With three brokers replication factor 3, `min.insync.replicas` 2; a context manager.

    Brokers talk to each other on a listener of their own, so a fault of a proxy is one between a
    client and a broker.

    Args:
        data_dir: for data and logs.
        brokers: 1 or 3.
        features: as `LocalCluster` has them.
        properties: further broker settings.
    """

    def __init__(
        self,
        data_dir: Path,
        brokers: int = 3,
        features: Mapping[str, int] | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        self._proxies: dict[int, Proxy] = {}
        self._further = dict(properties or {})
        self._cluster = LocalCluster(
            brokers=brokers, data_dir=data_dir, properties=self._properties, features=features
        )

    def __enter__(self) -> FaultyCluster:
        try:
            self._cluster.start()
        except BaseException:
            self._close_proxies()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._cluster.stop()
        self._close_proxies()

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of the proxies, for clients that faults are to disturb."""
        return ",".join(f"127.0.0.1:{proxy.port}" for proxy in self._proxies.values())

    @property
    def direct_servers(self) -> str:
        """The brokers' own addresses, for clients that judge the output."""
        return self._cluster.bootstrap_servers

    @property
    def brokers(self) -> dict[int, Broker]:
        """By node id."""
        return {broker.node_id: broker for broker in self._cluster.brokers}

    @property
    def proxies(self) -> dict[int, Proxy]:
        """By the node id of their broker."""
        return dict(self._proxies)

    def transaction_coordinator(self, transactional_id: str) -> int:
        """The node id of the broker that coordinates this id's transactions now."""
        return self._coordinator(_TRANSACTIONS, transactional_id)

    def group_coordinator(self, group: str) -> int:
        """The node id of the broker that coordinates this group now."""
        return self._coordinator(_GROUPS, group)

    def leaders(self, topic: str) -> dict[int, int]:
        """The node ids of a topic's leaders now, by partition."""
        with KafkaAdminClient(bootstrap_servers=self.direct_servers) as admin:
            (described,) = admin.describe_topics([topic])
        return {p["partition_index"]: p["leader_id"] for p in described["partitions"]}

    def _coordinator(self, topic: str, name: str) -> int:
        leaders = self.leaders(topic)
        return leaders[partition_of(name, len(leaders))]

    def _properties(self, broker: Broker) -> Mapping[str, str]:
        (port,) = free_ports(1)
        proxy = Proxy(port)
        proxy.start()
        self._proxies[broker.node_id] = proxy
        return {**broker.behind_proxy(port, proxy.port), **self._further}

    def _close_proxies(self) -> None:
        for proxy in self._proxies.values():
            proxy.close()
