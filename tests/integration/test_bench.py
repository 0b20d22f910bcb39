"""Benchmarks on a user's cluster: they end as they should, and leave nothing behind."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
from eoskafka.bench.brokers import _delay_line
from eoskafka.cluster import LocalCluster
from eoskafka.cluster.local import free_ports
from kafka.admin import KafkaAdminClient

TIMEOUT_S = 280

pytestmark = pytest.mark.slow


def bench(*arguments: str) -> dict[str, object]:
    """What a benchmark prints, run in a process of its own."""
    command = [sys.executable, "-m", "eoskafka", "bench", *arguments, "--format", "json"]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False, env={**os.environ}
    )
    assert done.returncode == 0, done.stderr[-3_000:]
    assert "not removed" not in done.stderr
    printed = json.loads(done.stdout)
    assert printed["holds"]
    assert all(run["lost"] == run["duplicated"] == 0 for run in printed["runs"])
    return dict(printed)


def left(cluster: LocalCluster) -> list[str]:
    """Topics and groups of benchmarks that a cluster still has."""
    with closing(KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)) as admin:
        names = [*admin.list_topics(), *(group["group_id"] for group in admin.list_groups())]
    return [name for name in names if name.startswith("eoskafka-bench-")]


@pytest.mark.parametrize("partitions", [1, 3])
def test_throughput_of_every_peer(cluster: LocalCluster, partitions: int) -> None:
    printed = bench(
        *("throughput", "--bootstrap-servers", cluster.bootstrap_servers, "--rounds", "1"),
        *("--records", "3000", "--record-bytes", "50", "--partitions", str(partitions), "--keyed"),
    )
    peers = printed["peers"]
    assert isinstance(peers, dict)
    assert len(peers) == 9
    assert {"Flink", "Flink, eoskafka's settings"} <= peers.keys()
    assert all(peer["rows_per_s"]["median"] > 0 for peer in peers.values())
    assert left(cluster) == []


def test_latency_of_every_peer(cluster: LocalCluster) -> None:
    printed = bench(
        *("latency", "--bootstrap-servers", cluster.bootstrap_servers, "--rounds", "1"),
        *("--rate", "100", "--seconds", "3", "--warm-up", "2", "--partitions", "2"),
    )
    peers = printed["peers"]
    assert isinstance(peers, dict)
    assert {"Flink", "Flink, eoskafka's settings"} <= peers.keys()
    assert all(0 < peer["p50_ms"]["median"] <= peer["p99_ms"]["median"] for peer in peers.values())
    assert left(cluster) == []


def test_intervals_with_a_plot(cluster: LocalCluster, tmp_path: Path) -> None:
    plot = tmp_path / "interval.png"
    printed = bench(
        *("interval", "--bootstrap-servers", cluster.bootstrap_servers, "--rounds", "1"),
        *("--intervals-ms", "10,50", "--rate", "100", "--seconds", "2", "--warm-up", "1"),
        *("--partitions", "2", "--backlog", "2000000", "--plot", str(plot)),
    )
    intervals = printed["intervals"]
    assert isinstance(intervals, list)
    labels = ("Flink", "Flink, eoskafka's settings", "eoskafka, real-time")
    found = [(each["peer"], each["interval_ms"]) for each in intervals]
    assert found == [(label, ms) for label in labels for ms in (10, 50)]
    for each in intervals:
        assert 0 < each["p50_ms"]["median"] <= each["p99_ms"]["median"]
        assert each["rows_per_s"]["median"] > 0
        if each["peer"] == "eoskafka, real-time":
            assert all(part["median"] > 0 for part in each["transaction_ms"].values())
    assert left(cluster) == []
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_scale_with_a_plot(tmp_path: Path) -> None:
    plot = tmp_path / "scale.png"
    printed = bench(
        *("scale", "--records", "2000", "--partitions", "2,20", "--planned", "30"),
        *("--slots", "1,4", "--batch-records", "10", "--rounds", "1", "--plot", str(plot)),
    )
    cases = printed["cases"]
    assert isinstance(cases, list)
    # One Produce, the offsets, the end.
    assert [case["requests"] for case in cases if case["part"] == "requests"] == [3.0]
    ids = {(c["part"], c["producers"], c["size"]): c["transactional_ids"] for c in cases[:6]}
    assert ids == {
        ("partitions", "per slot", 2): 2,
        ("partitions", "per partition", 2): 2,
        ("partitions", "per slot", 20): 2,
        ("partitions", "per partition", 20): 20,
        ("slots", "per slot", 1): 1,
        ("slots", "per slot", 4): 4,
    }
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_latency_with_three_brokers_that_are_far_away() -> None:
    printed = bench(
        *("latency", "--brokers", "3", "--round-trip-ms", "40", "--rounds", "1", "--peers", ""),
        *("--rate", "100", "--seconds", "5", "--warm-up", "5", "--partitions", "2"),
    )
    assert printed["brokers"] == {"count": 3, "round_trip_ms": 40.0}
    peers = printed["peers"]
    assert isinstance(peers, dict)
    # In, out, and to the coordinators.
    assert all(peer["p50_ms"]["least"] > 80 for peer in peers.values())


def test_a_delay_line_delays_in_both_directions_and_keeps_the_order() -> None:
    far, near = free_ports(2)
    numbers = b"".join(b"%d," % n for n in range(100_000))
    with (
        socket.create_server(("127.0.0.1", near)) as server,
        _delay_line(100.0, [(far, near)]),
    ):
        began = time.monotonic()
        with socket.create_connection(("127.0.0.1", far)) as client:
            broker, _ = server.accept()
            client.sendall(numbers)
            client.shutdown(socket.SHUT_WR)
            with broker:
                found = broker.makefile("rb").read()
                # The round trip of the handshake, and one way.
                assert time.monotonic() - began >= 0.15
                broker.sendall(b"seen")
            # The other direction goes on after the end of this one.
            assert client.makefile("rb").read() == b"seen"
    assert found == numbers


def test_brokers_that_are_not_there_are_named() -> None:
    command = [sys.executable, "-m", "eoskafka", "bench", "throughput", "--peers", "built-in"]
    done = subprocess.run(
        [*command, "--bootstrap-servers", "127.0.0.1:1"],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 3
    assert "no broker answers at 127.0.0.1:1" in done.stderr
