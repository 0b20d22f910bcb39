"""`LocalCluster`: one or three KRaft brokers on 127.0.0.1.

They outlive the process that starts them; others find them through `cluster.json` in the data
folder.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import random
import shutil
import socket
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType

from eoskafka.cluster.broker import START_TIMEOUT_S, Broker, run_kafka_tool
from eoskafka.cluster.jars import KAFKA_VERSION, cache_dir, kafka_jars
from eoskafka.cluster.process import ProcessId
from eoskafka.cluster.settings import broker_properties, write_log4j, write_properties
from eoskafka.errors import ClusterError, ClusterNotFoundError

_STATE_FILE = "cluster.json"
# Below Linux's ephemeral range (32768 and up): no outgoing connection takes the port of a broker
# that is down for a moment.
_PORTS = range(20_000, 32_000)
# A broker binds its ports seconds after it was given them.
_given: set[int] = set()


class LocalCluster:
    """A real Kafka cluster in combined mode (each process is broker and controller).

    Args:
        brokers: 1 or 3. With 3, replication factor 3 and `min.insync.replicas` 2.
        data_dir: the folder for data, logs and state. The default for a context manager is a
            temporary folder, which is deleted at the end unless an error ended the block; for
            `start()` it is the folder that `eoskafka cluster` uses, `<cache>/cluster`.
        heap_mb: heap bound of each broker, MiB.
        properties: further broker settings, which override our own; or a function that returns
            them for a broker whose ports are known.
        features: for a new cluster, levels of Kafka's features that differ from the newest, such as
            `transaction.version` 1.
        jars: the jars of another Kafka release that has KRaft; None for the pinned ones.

    Raises:
        ClusterError: from every method; it names the broker's log file if a broker is to blame.
    """

    def __init__(
        self,
        brokers: int = 1,
        data_dir: str | os.PathLike[str] | None = None,
        heap_mb: int = 512,
        properties: Mapping[str, str] | Callable[[Broker], Mapping[str, str]] | None = None,
        features: Mapping[str, int] | None = None,
        jars: Sequence[Path] | None = None,
    ) -> None:
        if brokers not in (1, 3):
            raise ClusterError(f"a local cluster has 1 or 3 brokers, not {brokers}")
        self._size = brokers
        self._heap_mb = heap_mb
        self._properties = properties or {}
        self._features = features or {}
        self._jars = jars
        self._chosen_dir = Path(data_dir).absolute() if data_dir is not None else None
        self._temporary: Path | None = None
        self._cluster_id: str | None = None
        self._brokers: list[Broker] = []

    @classmethod
    def attach(cls, data_dir: str | os.PathLike[str] | None = None) -> LocalCluster:
        """The cluster that some process started in `data_dir` (default `<cache>/cluster`).

        Raises ClusterNotFoundError if there is none; its brokers may be stopped.
        """
        cluster = cls(data_dir=data_dir)
        if not cluster._load():
            raise ClusterNotFoundError(
                f"no cluster in {cluster.data_dir}: start one with `eoskafka cluster start`"
            )
        return cluster

    @property
    def data_dir(self) -> Path:
        """Where everything of this cluster is."""
        return self._temporary or self._chosen_dir or cache_dir() / "cluster"

    @property
    def cluster_id(self) -> str:
        """Kafka's id of this cluster; ClusterError before the first start."""
        if self._cluster_id is None:
            raise ClusterError("the cluster has no id until it is started")
        return self._cluster_id

    @property
    def brokers(self) -> list[Broker]:
        """The brokers in the order of their node ids (1, 2, 3); empty before the first start."""
        return list(self._brokers)

    @property
    def bootstrap_servers(self) -> str:
        """`127.0.0.1:p1,127.0.0.1:p2`, for `bootstrap.servers`."""
        return ",".join(broker.address for broker in self._brokers)

    @property
    def is_running(self) -> bool:
        """True if every broker's process runs."""
        return bool(self._brokers) and all(b.pid is not None for b in self._brokers)

    def start(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Start all brokers together and wait until each is ready, at most `timeout_s` seconds.

        A stopped cluster in the same folder starts again with its ports, data and id. After a
        failure nothing is left running.
        """
        self.data_dir.mkdir(parents=True, exist_ok=True)
        with self._locked():
            known = self._load()
            if any(broker.pid for broker in self._brokers):
                raise ClusterError(
                    f"a cluster already runs in {self.data_dir} ({self.bootstrap_servers}): "
                    "use it, or stop it first"
                )
            if known and len(self._brokers) != self._size:
                raise ClusterError(
                    f"{self.data_dir} holds a cluster of {len(self._brokers)} brokers, not "
                    f"{self._size}: purge it first (this deletes its data), or use another data_dir"
                )
            if not known:
                self._create()
            self._configure()
            try:
                for broker in self._brokers:
                    broker.launch()
                self._each(lambda broker: broker.wait_ready(timeout_s))
            except BaseException:
                self._kill_all()
                raise

    def stop(self) -> None:
        """Shut all brokers down in order; one that hangs is killed. Data and logs stay."""
        self._load()
        self._each(_stop)

    def purge(self) -> None:
        """Kill the brokers and delete the cluster's data and logs."""
        if not self._load():
            return  # never delete a folder that holds no cluster of ours
        self._kill_all()
        for broker in self._brokers:
            shutil.rmtree(broker.folder, ignore_errors=True)
        for name in (_STATE_FILE, ".lock"):
            (self.data_dir / name).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self.data_dir.rmdir()  # only if nothing else is in it
        self._brokers, self._cluster_id = [], None

    def __enter__(self) -> LocalCluster:
        if self._chosen_dir is None:
            self._temporary = Path(tempfile.mkdtemp(prefix="eoskafka-cluster-"))
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._temporary is None:
            self.stop()
        elif error is None:
            self.purge()
        else:
            self.stop()
            print(f"eoskafka: the brokers' logs are kept in {self.data_dir}", file=sys.stderr)

    def _create(self) -> None:
        """Draw an id and free ports, and record them before anything is started."""
        self._cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if self._cluster_id.startswith("-"):  # StorageTool would take it for an option
            self._cluster_id = "A" + self._cluster_id[1:]
        ports = free_ports(2 * self._size)
        self._brokers = [
            self._broker(n, ports[2 * n - 2], ports[2 * n - 1], self._heap_mb, None)
            for n in range(1, self._size + 1)
        ]
        self._save()

    def _broker(
        self, node_id: int, port: int, controller_port: int, heap_mb: int, process: ProcessId | None
    ) -> Broker:
        return Broker(
            node_id=node_id,
            port=port,
            controller_port=controller_port,
            folder=self.data_dir / f"broker-{node_id}",
            heap_mb=heap_mb,
            process=process,
            on_change=self._save,
            jars=self._jars,
        )

    def _configure(self) -> None:
        """Write every broker's settings, and format its storage if that was not done."""
        voters = {broker.node_id: broker.controller_port for broker in self._brokers}
        for broker in self._brokers:
            broker.folder.mkdir(exist_ok=True)
            broker.heap_mb = self._heap_mb
            ours = broker_properties(
                node_id=broker.node_id,
                port=broker.port,
                voters=voters,
                log_dir=broker.folder / "data",
            )
            further = self._properties(broker) if callable(self._properties) else self._properties
            write_properties(broker.folder / "server.properties", {**ours, **further})
            write_log4j(broker.folder / "log4j2.properties")
        self._each(self._format)

    def _format(self, broker: Broker) -> None:
        settings = str(broker.folder / "server.properties")
        run_kafka_tool(
            self._jars or kafka_jars(),
            "kafka.tools.StorageTool",
            *("format", "--cluster-id", self.cluster_id, "--config", settings),
            "--ignore-formatted",
            *(f"--feature={name}={level}" for name, level in self._features.items()),
        )

    def _each(self, action: Callable[[Broker], None]) -> None:
        """Do it to all brokers at the same time; the first error is raised when all are done."""
        with ThreadPoolExecutor(max_workers=len(self._brokers) or 1) as pool:
            for done in [pool.submit(action, broker) for broker in self._brokers]:
                done.result()

    def _kill_all(self) -> None:
        for broker in self._brokers:
            with contextlib.suppress(ClusterError):  # it does not run
                broker.kill()

    def _load(self) -> bool:
        """Take over what the state file says; False if there is none."""
        try:
            state = json.loads((self.data_dir / _STATE_FILE).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return False
        self._cluster_id = state["cluster_id"]
        known = {broker.node_id: broker for broker in self._brokers}
        self._brokers = []
        for entry in state["brokers"]:
            process = ProcessId(entry["pid"], entry["started"]) if entry["pid"] else None
            # Broker objects that a caller holds stay the ones that are updated.
            broker = known.get(entry["node_id"]) or self._broker(
                *(entry["node_id"], entry["port"], entry["controller_port"]),
                *(state["heap_mb"], process),
            )
            broker.process = process
            self._brokers.append(broker)
        return True

    def _save(self) -> None:
        """Write the state file whole or not at all: a reader in another process may come now."""
        state = {
            "kafka_version": None if self._jars else KAFKA_VERSION,
            "cluster_id": self._cluster_id,
            "heap_mb": self._heap_mb,
            "brokers": [
                {
                    "node_id": broker.node_id,
                    "port": broker.port,
                    "controller_port": broker.controller_port,
                    "pid": broker.process.pid if broker.process else None,
                    "started": broker.process.started if broker.process else None,
                }
                for broker in self._brokers
            ],
        }
        path = self.data_dir / _STATE_FILE
        draft = path.with_suffix(f".{os.getpid()}.tmp")
        draft.write_text(json.dumps(state, indent=2) + "\n", encoding="utf-8")
        draft.replace(path)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Let one process at a time start the cluster of this folder."""
        with (self.data_dir / ".lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise ClusterError(
                    f"another process is starting the cluster in {self.data_dir}"
                ) from error
            yield


def _stop(broker: Broker) -> None:
    if broker.pid is None:
        return
    try:
        broker.terminate()
    except ClusterError:
        with contextlib.suppress(ClusterError):  # it ended in the meantime
            broker.kill()


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that nothing listens on, other ones in each call."""
    found: list[int] = []
    for port in random.sample(_PORTS, len(_PORTS)):
        if port in _given:
            continue
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            found.append(port)
            _given.add(port)
        if len(found) == count:
            return found
    raise ClusterError(f"fewer than {count} free ports in {_PORTS.start}..{_PORTS.stop - 1}")
