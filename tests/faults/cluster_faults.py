"""Faults of a campaign that hit the cluster as a whole: more than one broker, a disk, the network.

Each one makes sure that it had its effect: a fault that does nothing ends the campaign.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from eoskafka.cluster.broker import Broker
from harness import until
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient

if TYPE_CHECKING:
    from faults.campaign import Campaign

# Brokers are taken for dead after 4 s.
_AWAY_S = 6.0
_MUTE_S = 3.0
_LOSS_S = 5.0
_LOSS_PERCENT = 10
_HANGING_S = 4.0
_TIMEOUT_S = 60.0
_DISK_MIB = 512
_SMALL_DISK = 2
_CHUNK = bytes(1 << 20)


def can_mount_and_filter() -> bool:
    """Whether this user may mount a small disk and drop packets."""
    return os.geteuid() == 0 and shutil.which("nft") is not None


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """A file system in memory at `folder`/broker-2, for the data of that broker."""
    place = folder / f"broker-{_SMALL_DISK}"
    place.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={_DISK_MIB}m", "eoskafka", str(place)]
    subprocess.run(mount, check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def kill_controller(campaign: Campaign, _: random.Random) -> str:
    """Kill the broker that is the active controller, and start it when there is another one."""
    servers = campaign.cluster.direct_servers
    node, epoch = _controller(servers)
    broker = campaign.cluster.brokers[node]
    campaign.happens_now()
    broker.kill()
    until(lambda: _controller(servers)[1] > epoch, "another controller", _TIMEOUT_S)
    broker.start()
    return f"broker {node}"


def pause_two_brokers(campaign: Campaign, rng: random.Random) -> str:
    """Pause two of three: no controller is elected, and no write has enough replicas."""
    chosen = [campaign.cluster.brokers[node] for node in _two(campaign, rng)]
    campaign.happens_now()
    for broker in chosen:
        broker.pause()
    campaign.last(_AWAY_S)
    seen = campaign.reader.count()
    campaign.last(1)
    assert campaign.reader.count() == seen, "records are written with one replica"
    for broker in chosen:
        broker.resume()
    return _names(chosen)


def kill_two_brokers(campaign: Campaign, rng: random.Random) -> str:
    """Kill two of three, and start both after a while."""
    chosen = [campaign.cluster.brokers[node] for node in _two(campaign, rng)]
    campaign.happens_now()
    for broker in chosen:
        broker.kill()
    campaign.last(_AWAY_S)
    # The first to start has no quorum before the second one runs.
    for broker in chosen:
        broker.launch()
    for broker in chosen:
        broker.wait_ready(_TIMEOUT_S)
    return _names(chosen)


def restart_brokers_in_turn(campaign: Campaign, _: random.Random) -> str:
    """Stop each broker in order and start it, the next when all replicas are in sync again."""
    campaign.happens_now()
    for broker in campaign.cluster.brokers.values():
        former = broker.pid
        broker.terminate()
        broker.start()
        assert broker.pid != former
        until(lambda: _all_in_sync(campaign), "all replicas in sync", _TIMEOUT_S)
    return "all brokers"


def fill_disk(campaign: Campaign, _: random.Random) -> str:
    """Fill the disk of a broker until it ends by itself; then make room and start it."""
    broker = campaign.cluster.brokers[_SMALL_DISK]
    filler = broker.folder / "filler"
    campaign.happens_now()
    with filler.open("wb", buffering=0) as file:

        def is_gone() -> bool:
            # What the broker deletes meanwhile is filled as well.
            with contextlib.suppress(OSError):
                while True:
                    file.write(_CHUNK)
            return broker.pid is None

        until(is_gone, f"the end of broker {broker.node_id}, whose disk is full", _TIMEOUT_S)
    filler.unlink()
    broker.start()
    return f"broker {broker.node_id}"


def swallow_replies(campaign: Campaign, rng: random.Random) -> str:
    """Requests reach a broker and have their effect; nothing comes back from it for a while."""
    node = rng.choice(_asked(campaign))
    proxy = campaign.cluster.proxies[node]
    before = proxy.swallowed
    proxy.mute()
    campaign.happens_now()
    campaign.last(_MUTE_S)
    until(lambda: proxy.swallowed > before, f"a reply of broker {node}", _TIMEOUT_S)
    proxy.mend()
    return f"broker {node}: {proxy.swallowed - before} replies"


def _asked(campaign: Campaign) -> list[int]:
    """The brokers that clients ask something now: one that was restarted may lead nothing."""
    proxies = campaign.cluster.proxies
    before = {node: proxy.requests.total() for node, proxy in proxies.items()}

    def found() -> list[int]:
        return [node for node in sorted(proxies) if proxies[node].requests.total() > before[node]]

    return until(found, "a request to any broker", _TIMEOUT_S)


def lose_packets(campaign: Campaign, _: random.Random) -> str:
    """Lose every tenth packet to a broker or from it, clients' and brokers' alike."""
    ports = {broker.port for broker in campaign.cluster.brokers.values()}
    ports |= {broker.controller_port for broker in campaign.cluster.brokers.values()}
    ports |= {proxy.port for proxy in campaign.cluster.proxies.values()}
    ports |= {proxy.target for proxy in campaign.cluster.proxies.values()}
    table = f"eoskafka_{os.getpid()}"
    listed = "{" + ", ".join(map(str, sorted(ports))) + "}"
    loss = f"numgen random mod 100 < {_LOSS_PERCENT} counter drop"
    campaign.happens_now()
    _nft(
        f"add table inet {table}",
        f"add chain inet {table} input {{ type filter hook input priority 0; }}",
        f"add rule inet {table} input tcp dport {listed} {loss}",
        f"add rule inet {table} input tcp sport {listed} {loss}",
    )
    try:
        campaign.last(_LOSS_S)
        lost = _dropped(table)
    finally:
        _nft(f"delete table inet {table}")
    assert lost > 0
    return f"{lost} packets"


def leave_transaction_open(campaign: Campaign, rng: random.Random) -> str:
    """Somebody else's transaction on input and output stays open for a while, and is aborted."""
    flow = campaign.flow
    partition = rng.randrange(flow.partitions)
    name = f"stranger-{rng.getrandbits(32):08x}"
    with closing(KafkaProducer(bootstrap_servers=flow.servers, transactional_id=name)) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        for topic in (flow.input, flow.output):
            producer.send(topic, b"never", partition=partition)
        producer.flush()
        campaign.happens_now()
        campaign.last(_HANGING_S)
        with flow.admin() as admin:
            described = admin.describe_transactions([name])[name]
        assert described.state.value == "Ongoing", described
        producer.abort_transaction()
    return f"partition {partition} of both topics"


def _two(campaign: Campaign, rng: random.Random) -> list[int]:
    return rng.sample(sorted(campaign.cluster.brokers), 2)


def _names(brokers: Sequence[Broker]) -> str:
    return " and ".join(f"broker {broker.node_id}" for broker in brokers)


def _controller(servers: str) -> tuple[int, int]:
    """The active controller's node id and epoch; epoch -1 while there is none."""
    with (
        contextlib.suppress(Exception),
        closing(KafkaAdminClient(bootstrap_servers=servers)) as admin,
    ):
        (partition,) = admin.describe_metadata_quorum()["topics"][0]["partitions"]
        return int(partition["leader_id"]), int(partition["leader_epoch"])
    return -1, -1


def _all_in_sync(campaign: Campaign) -> bool:
    with campaign.flow.admin() as admin:
        return all(
            len(partition["isr_nodes"]) == len(partition["replica_nodes"])
            for topic in admin.describe_topics(admin.list_topics())
            for partition in topic["partitions"]
        )


def _nft(*commands: str) -> None:
    subprocess.run(["nft", "-f", "-"], input="\n".join(commands), text=True, check=True)


def _dropped(table: str) -> int:
    listed = ["nft", "--json", "list", "table", "inet", table]
    said = subprocess.run(listed, capture_output=True, text=True, check=True).stdout
    return sum(
        expression["counter"]["packets"]
        for entry in json.loads(said)["nftables"]
        for expression in entry.get("rule", {}).get("expr", ())
        if "counter" in expression
    )
