"""`SplitCluster`: brokers and a controller in network namespaces of their own.

Each process has one address on a switch, which is a bridge in a namespace of its own. A broker
whose port is taken off the switch is cut from its peers and the controller in both directions. Its
clients still reach it: they come through a proxy, whose connections are made inside the namespace
of the broker. Nothing of this is in the network of the machine, and it goes with the namespaces.
"""

from __future__ import annotations

import base64
import ctypes
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

from eoskafka.brokers.topics import nodes
from eoskafka.cluster.broker import kafka_command, run_kafka_tool
from eoskafka.cluster.jars import kafka_jars
from eoskafka.cluster.settings import broker_properties, write_log4j, write_properties
from harness.waiting import until
from kafka import TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.errors import KafkaError

from faults.proxy import Proxy

BROKERS = (1, 2, 3)
_CONTROLLER = 100
_PEER_PORT, _CLIENT_PORT, _CONTROLLER_PORT = 9092, 9093, 9094
GROUPS = "__consumer_offsets"
TRANSACTIONS = "__transaction_state"
_START_S = 90.0
_STOP_S = 20.0
_CLONE_NEWNET = 0x40000000
_METADATA, _OFFSET_FETCH, _FIND_COORDINATOR = 3, 9, 10
_ANSWER_S = 10.0
# Of a request: api key, api version, correlation id, and a client id that is null.
_HEADER = struct.Struct(">hhih")
_SIZE = struct.Struct(">i")


def is_possible() -> bool:
    """Whether this user may make network namespaces."""
    return os.geteuid() == 0 and shutil.which("ip") is not None


class SplitCluster:
    """Three brokers and one controller; a context manager. Replication factor 3, two in sync.

    All consumer groups have one coordinator, since their topic has one partition.

    Args:
        data_dir: for data and logs.
    """

    def __init__(self, data_dir: Path) -> None:
        self._dir = data_dir
        self._prefix = f"eos{uuid.uuid4().hex[:6]}"
        self._switch = f"{self._prefix}-switch"
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._arrived: dict[int, int] = {}
        self.proxies: dict[int, Proxy] = {}

    def __enter__(self) -> SplitCluster:
        try:
            self._start()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._stop()

    def servers(self, *but: int) -> str:
        """The addresses of all brokers but these, through their proxies."""
        return ",".join(f"127.0.0.1:{p.port}" for n, p in self.proxies.items() if n not in but)

    def logs(self) -> list[Path]:
        """What each process has printed."""
        return [self._folder(node) / "broker.log" for node in self._nodes()]

    def cut(self, node: int) -> None:
        """Take a broker off the switch; its clients still reach it."""
        ip("-n", self._switch, "link", "set", f"port{node}", "nomaster")
        self._arrived[node] = self._received(node)

    def wait_deposed(self, node: int, topic: str) -> int:
        """Wait until a broker that was cut has been fenced, and partition 0 has another leader.

        Returns:
            the new leader.
        """
        until(lambda: node in self.fenced(node), f"the fencing of broker {node}", 30)
        until(lambda: self.leaders(topic, node)[0] not in (node, -1), f"a leader of {topic}-0", 30)
        assert self.swallowed(node) > 0
        return self.leaders(topic, node)[0]

    def join(self, *nodes: int) -> None:
        """Put brokers back on the switch, and wait until they have heard what they missed."""
        for node in nodes:
            ip("-n", self._switch, "link", "set", f"port{node}", "master", "switch")
        until(lambda: not self.fenced(), f"the return of brokers {nodes}", 90)
        # All that a broker has missed comes before this topic in the controller's log.
        name = f"joined-{uuid.uuid4().hex[:6]}"
        with self._admin() as admin:
            admin.create_topics([NewTopic(name, 1, 1)])
        for node in nodes:
            until(lambda node=node: self._knows(node, name), f"news for broker {node}", 90)  # type: ignore[misc]

    def swallowed(self, node: int) -> int:
        """How many packets of a broker have come to its port since it was cut, and went nowhere."""
        return self._received(node) - self._arrived[node]

    def leaders(self, topic: str, *but: int) -> dict[int, int]:
        """The leader of each partition, as all brokers but these know it."""
        with self._admin(*but) as admin:
            (described,) = admin.describe_topics([topic])
        return {p["partition_index"]: p["leader_id"] for p in described["partitions"]}

    def coordinator(self, *but: int) -> int:
        """The broker that coordinates all groups, as all brokers but these know it."""
        return self.leaders(GROUPS, *but)[0]

    def lead(self, node: int, *topics: str) -> None:
        """Make a broker the leader of all partitions of these topics."""
        order = [node, *(other for other in BROKERS if other != node)]
        for topic in topics:
            partitions = [TopicPartition(topic, number) for number in self.leaders(topic)]
            with self._admin() as admin:
                admin.alter_partition_reassignments(dict.fromkeys(partitions, order))
                until(
                    lambda found=partitions: not admin.list_partition_reassignments(found),  # type: ignore[misc]
                    f"the replicas of {topic}",
                    30,
                )
                admin.elect_leaders(0, [topic])
        until(
            lambda: all(set(self.leaders(topic).values()) == {node} for topic in topics),
            f"broker {node} as a leader",
            30,
        )

    def fenced(self, *but: int) -> set[int]:
        """The brokers that the controller has fenced, as all brokers but these know it."""
        with self._admin(*but) as admin:
            known = {int(n["broker_id"]) for n in nodes(admin) if not n.get("is_fenced")}
        return set(BROKERS) - known

    def says_of_itself(self, node: int, group: str) -> int:
        """Whom a broker names as the coordinator of a group, when it is asked."""
        answer = self._ask(node, _FIND_COORDINATOR, 0, _text(group))
        _, found = struct.unpack_from(">hi", answer, 4)
        return int(found)

    def fetched(self, node: int, group: str, partition: TopicPartition) -> int | None:
        """The offset of a group that a broker answers with; None if it answers with an error."""
        body = _text(group) + struct.pack(">i", 1) + _text(partition.topic)
        answer = self._ask(
            node, _OFFSET_FETCH, 1, body + struct.pack(">ii", 1, partition.partition)
        )
        at = 4 + 4 + 2 + len(partition.topic) + 4
        _, offset, length = struct.unpack_from(">iqh", answer, at)
        (error,) = struct.unpack_from(">h", answer, at + 14 + max(length, 0))
        return int(offset) if error == 0 else None

    def _knows(self, node: int, topic: str) -> bool:
        every_topic = struct.pack(">i", -1)
        return topic.encode() in self._ask(node, _METADATA, 1, every_topic)

    def _ask(self, node: int, api: int, version: int, body: bytes) -> bytes:
        frame = _HEADER.pack(api, version, 1, -1) + body
        with socket.create_connection(("127.0.0.1", self.proxies[node].port), _ANSWER_S) as to:
            to.sendall(_SIZE.pack(len(frame)) + frame)
            with to.makefile("rb") as answers:
                (size,) = _SIZE.unpack(answers.read(_SIZE.size))
                return answers.read(size)

    @contextmanager
    def _admin(self, *but: int) -> Iterator[KafkaAdminClient]:
        with closing(KafkaAdminClient(bootstrap_servers=self.servers(*but))) as admin:
            yield admin

    def _start(self) -> None:
        self._wire()
        for node in BROKERS:
            self.proxies[node] = Proxy(_CLIENT_PORT, lambda n=node: self._socket(n))  # type: ignore[misc]
            self.proxies[node].start()
        cluster_id = "A" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")[1:]
        for node in self._nodes():
            self._configure(node)
        with ThreadPoolExecutor(len(self._nodes())) as pool:
            for done in [pool.submit(self._format, node, cluster_id) for node in self._nodes()]:
                done.result()
        for node in self._nodes():
            self._launch(node)
        until(self._is_ready, "three brokers", _START_S)

    def _is_ready(self) -> bool:
        ended = [n for n, process in self._processes.items() if process.poll() is not None]
        assert not ended, f"ended while starting: {[str(self._folder(n)) for n in ended]}"
        try:
            return not self.fenced()
        except (KafkaError, OSError):
            return False

    def _wire(self) -> None:
        ip("netns", "add", self._switch)
        ip("-n", self._switch, "link", "add", "switch", "type", "bridge")
        ip("-n", self._switch, "link", "set", "switch", "up")
        for node in self._nodes():
            space = self._space(node)
            ip("netns", "add", space)
            ip("-n", space, "link", "set", "lo", "up")
            ip("-n", self._switch, "link", "add", f"port{node}", "type", "veth",
                "peer", "name", "eth0", "netns", space)  # fmt: skip
            ip("-n", space, "addr", "add", f"{_address(node)}/24", "dev", "eth0")
            ip("-n", space, "link", "set", "eth0", "up")
            ip("-n", self._switch, "link", "set", f"port{node}", "up", "master", "switch")

    def _configure(self, node: int) -> None:
        folder = self._folder(node)
        folder.mkdir(parents=True)
        properties = broker_properties(
            node_id=node,
            port=0,
            # For the number of replicas; who the voters are is said below.
            voters=dict.fromkeys((*BROKERS, node), 0),
            log_dir=folder / "data",
        )
        if node == _CONTROLLER:
            del properties["advertised.listeners"]
            properties["process.roles"] = "controller"
            properties["listeners"] = f"CONTROLLER://{_address(node)}:{_CONTROLLER_PORT}"
            names = "CONTROLLER:PLAINTEXT"
        else:
            peers = f"PEERS://{_address(node)}:{_PEER_PORT}"
            properties["process.roles"] = "broker"
            properties["listeners"] = f"{peers},CLIENTS://127.0.0.1:{_CLIENT_PORT}"
            properties["advertised.listeners"] = (
                f"{peers},CLIENTS://127.0.0.1:{self.proxies[node].port}"
            )
            properties["inter.broker.listener.name"] = "PEERS"
            properties["offsets.topic.num.partitions"] = "1"
            names = "CONTROLLER:PLAINTEXT,PEERS:PLAINTEXT,CLIENTS:PLAINTEXT"
        properties["listener.security.protocol.map"] = names
        properties["controller.quorum.voters"] = (
            f"{_CONTROLLER}@{_address(_CONTROLLER)}:{_CONTROLLER_PORT}"
        )
        properties["default.replication.factor"] = str(len(BROKERS))
        # Leaders stay where a test has put them.
        properties["auto.leader.rebalance.enable"] = "false"
        write_properties(folder / "server.properties", properties)
        write_log4j(folder / "log4j2.properties")

    def _format(self, node: int, cluster_id: str) -> None:
        settings = str(self._folder(node) / "server.properties")
        run_kafka_tool(
            kafka_jars(),
            "kafka.tools.StorageTool",
            *("format", "--cluster-id", cluster_id, "--config", settings),
        )

    def _launch(self, node: int) -> None:
        folder = self._folder(node)
        command = [
            *("ip", "netns", "exec", self._space(node)),
            *kafka_command(kafka_jars()),
            *("-Xmx320m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
            f"-Dlog4j2.configurationFile={folder / 'log4j2.properties'}",
            *("kafka.Kafka", str(folder / "server.properties")),
        ]
        with (folder / "broker.log").open("ab") as log:
            self._processes[node] = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=folder,
                start_new_session=True,
            )

    def _stop(self) -> None:
        for process in self._processes.values():
            process.send_signal(signal.SIGKILL)
        for process in self._processes.values():
            process.wait(_STOP_S)
        for proxy in self.proxies.values():
            proxy.close()
        for space in (*(self._space(node) for node in self._nodes()), self._switch):
            subprocess.run(["ip", "netns", "del", space], capture_output=True, check=False)

    def _received(self, node: int) -> int:
        said = ip("-n", self._switch, "-s", "-j", "link", "show", f"port{node}")
        (link,) = json.loads(said)
        return int(link["stats64"]["rx"]["packets"])

    def _socket(self, node: int) -> socket.socket:
        """A socket in the broker's namespace, which the thread enters only to make it."""
        libc = ctypes.CDLL(None, use_errno=True)
        with (
            open("/proc/thread-self/ns/net") as ours,
            open(f"/run/netns/{self._space(node)}") as theirs,
        ):
            _enter(libc, theirs.fileno())
            try:
                return socket.socket()
            finally:
                _enter(libc, ours.fileno())

    @staticmethod
    def _nodes() -> tuple[int, ...]:
        return (*BROKERS, _CONTROLLER)

    def _space(self, node: int) -> str:
        return f"{self._prefix}-{node}"

    def _folder(self, node: int) -> Path:
        return self._dir / f"node-{node}"


def _enter(libc: ctypes.CDLL, namespace: int) -> None:
    if libc.setns(namespace, _CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


def _address(node: int) -> str:
    return f"10.77.0.{node}"


def _text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def ip(*arguments: str) -> str:
    """Run iproute2's `ip`; what it prints."""
    return subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True).stdout
