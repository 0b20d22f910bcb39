"""`OtherHost`: a network namespace with two ways to this machine, one of which can be cut.

Spark's processes speak over a switch, which is a bridge in a namespace of its own. A host whose
port is taken off the switch is cut off from the driver in both directions, and neither side is
told. The brokers are reached over another network, which stays. All of it goes with the
namespaces.
"""

from __future__ import annotations

import json
import os
import subprocess
import uuid
from collections.abc import Mapping

from eoskafka.cluster import Broker

from faults.split import ip


class OtherHost:
    """Another host; a context manager.

    Attributes:
        space: the namespace, for processes that are started on it.
        driver: the address of this machine in Spark's network.
        worker: the address of the other host in Spark's network.
        brokers: the address of this machine in the brokers' network.
    """

    def __init__(self) -> None:
        prefix = f"eos{uuid.uuid4().hex[:6]}"
        # Tests that run at the same time have networks of their own.
        number = os.getpid() % 256
        self.space = f"{prefix}-host"
        self.driver, self.worker = f"10.78.{number}.1", f"10.78.{number}.2"
        self.brokers, self._to_brokers = f"10.79.{number}.1", f"10.79.{number}.2"
        self._switch = f"{prefix}-switch"
        self._ours = f"{prefix}-spark", f"{prefix}-kafka"
        self._arrived = 0

    def __enter__(self) -> OtherHost:
        try:
            self._wire()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        for space in (self.space, self._switch):
            subprocess.run(["ip", "netns", "del", space], capture_output=True, check=False)

    def listeners(self, broker: Broker) -> Mapping[str, str]:
        """The settings of a broker that both hosts reach at one address."""
        return {
            "listeners": f"PLAINTEXT://0.0.0.0:{broker.port},"
            f"CONTROLLER://127.0.0.1:{broker.controller_port}",
            "advertised.listeners": f"PLAINTEXT://{self.brokers}:{broker.port}",
        }

    def cut(self) -> None:
        """No more packets between the driver and this host; it still reaches the brokers."""
        ip("-n", self._switch, "link", "set", "host", "nomaster")
        self._arrived = self._received()

    def join(self) -> None:
        """Both ways are there again."""
        ip("-n", self._switch, "link", "set", "host", "master", "switch")

    def swallowed(self) -> int:
        """How many packets the host has sent to the driver since it was cut, and went nowhere."""
        return self._received() - self._arrived

    def _wire(self) -> None:
        ip("netns", "add", self._switch)
        ip("netns", "add", self.space)
        ip("-n", self.space, "link", "set", "lo", "up")
        ip("-n", self._switch, "link", "add", "switch", "type", "bridge")
        ip("-n", self._switch, "link", "set", "switch", "up")
        spark, kafka = self._ours
        ip("link", "add", spark, "type", "veth", "peer", "name", "main", "netns", self._switch)
        ip("-n", self.space, "link", "add", "spark", "type", "veth",
           "peer", "name", "host", "netns", self._switch)  # fmt: skip
        ip("link", "add", kafka, "type", "veth", "peer", "name", "kafka", "netns", self.space)
        for port in ("main", "host"):
            ip("-n", self._switch, "link", "set", port, "up", "master", "switch")
        for address, link in ((self.driver, spark), (self.brokers, kafka)):
            ip("addr", "add", f"{address}/24", "dev", link)
            ip("link", "set", link, "up")
        for address, link in ((self.worker, "spark"), (self._to_brokers, "kafka")):
            ip("-n", self.space, "addr", "add", f"{address}/24", "dev", link)
            ip("-n", self.space, "link", "set", link, "up")

    def _received(self) -> int:
        (link,) = json.loads(ip("-n", self._switch, "-s", "-j", "link", "show", "host"))
        return int(link["stats64"]["rx"]["packets"])
