"""`make handover`: a new version of a job takes over from the running one, seen by its readers.

One broker, eight input partitions, a steady stream of records. Version A runs alone; version B is
started beside it with `handover=true`; A ends by itself. A reader notes when each record comes out
and which version has made it. The report has, by partition, the longest gap and how much of its
rate a partition kept until it moved; and a plot of rates and latency.

Exit code 0: every record came out once, no partition stood still for more than two seconds, and
each kept nine tenths of its rate until it moved. 1: otherwise.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import tempfile
import threading
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
from eoskafka.cluster import LocalCluster
from harness import Application, Flow, until
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

mpl.use("Agg")
from matplotlib import pyplot as plt

ROOT = Path(__file__).resolve().parent.parent.parent
PARTITIONS = 8
RATE = 2_000
TICK_S = 0.02
ALONE_S = 15.0
AFTER_S = 15.0
HOW: dict[str, Any] = {"ownership": "shared", "interval": "0 seconds"}

MOST_GAP_S = 2.0
LEAST_RATE = 0.9


@dataclass(frozen=True)
class Seen:
    """A record that came out.

    Attributes:
        at: when, in seconds since the beginning.
        partition: of the input.
        number: of the record.
        latency_s: since it was sent.
        version: that made it, `A` or `B`.
    """

    at: float
    partition: int
    number: int
    latency_s: float
    version: str


class Stream:
    """Sends records at a steady rate, and notes when they come out, each on a thread of its own."""

    def __init__(self, flow: Flow) -> None:
        self.sent = 0
        self.seen: list[Seen] = []
        self.began = time.monotonic()
        self._flow = flow
        self._ends = [threading.Event(), threading.Event()]
        self._threads = [threading.Thread(target=t, daemon=True) for t in (self._send, self._read)]
        for thread in self._threads:
            thread.start()

    def now(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self.began

    def close(self) -> None:
        """Stop sending, wait for what was sent, stop reading."""
        self._ends[0].set()
        self._threads[0].join(60)
        until(lambda: len(self.seen) >= self.sent, "the last records", 60)
        time.sleep(2)  # for records that come twice
        self._ends[1].set()
        self._threads[1].join(60)

    def _send(self) -> None:
        with closing(KafkaProducer(bootstrap_servers=self._flow.servers, linger_ms=0)) as producer:
            while not self._ends[0].wait(TICK_S):
                due = int(self.now() * RATE)
                while self.sent < due:
                    partition = self.sent % PARTITIONS
                    value = f"{partition}:{self.sent}:{self.now()}:".encode()
                    producer.send(self._flow.input, value=value, partition=partition)
                    self.sent += 1

    def _read(self) -> None:
        with closing(
            KafkaConsumer(
                bootstrap_servers=self._flow.servers,
                isolation_level="read_committed",
                enable_auto_commit=False,
                auto_offset_reset="earliest",
            )
        ) as consumer:
            partitions = [TopicPartition(self._flow.output, p) for p in range(4)]
            consumer.assign(partitions)
            while not self._ends[1].is_set():
                for record in itertools.chain(*consumer.poll(50).values()):
                    now = self.now()
                    partition, number, sent, mark = record.value.decode().split(":")
                    version = "A" if mark == "!" else "B"
                    latency = now - float(sent)
                    self.seen.append(Seen(now, int(partition), int(number), latency, version))


def main() -> int:
    """Hand over, judge, and write the report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--report", type=Path, default=ROOT / "reports" / "handover.md")
    report = parser.parse_args().report
    with (
        tempfile.TemporaryDirectory(prefix="eoskafka-handover-") as name,
        LocalCluster() as cluster,
    ):
        folder = Path(name)
        flow = Flow(cluster.bootstrap_servers, folder / "checkpoint", partitions=PARTITIONS)
        folders = [folder / version for version in ("a", "b")]
        for each in folders:
            each.mkdir()
        with (
            Application(folders[0], "local[1]") as first,
            Application(folders[1], "local[1]") as second,
        ):
            running = flow.start(first, driver="a", **HOW)
            # Its JVM is warm, as on a cluster where each version has cores of its own.
            warm = Flow(cluster.bootstrap_servers, folder / "warm", partitions=PARTITIONS)
            warm.produce(20_000)
            warm.start(second, transform="as_is").wait_done()
            stream = Stream(flow)
            time.sleep(ALONE_S)
            started = stream.now()
            flow.start(second, driver="b", transform="as_is", handover="true", **HOW)
            until(lambda: not running.status().active, "the end of version A", 120)
            ended = stream.now()
            assert running.status().error is None
            time.sleep(AFTER_S)
            stream.close()
            flow.assert_nothing_is_open()
    return judge(stream, started, ended, report)


def judge(stream: Stream, started: float, ended: float, report: Path) -> int:
    """The report's text and plot; the exit code."""
    numbers = sorted(each.number for each in stream.seen)
    once = numbers == [*range(stream.sent)]
    gaps, rates, moves = {}, {}, {}
    for partition in range(PARTITIONS):
        mine = sorted(each.at for each in stream.seen if each.partition == partition)
        inside = [at for at in mine if started - 1 <= at <= ended + 5]
        gaps[partition] = max(b - a for a, b in itertools.pairwise(inside))
        of_b = [e.at for e in stream.seen if e.partition == partition and e.version == "B"]
        moves[partition] = min(of_b)
        of_a = [e.at for e in stream.seen if e.partition == partition and e.version == "A"]
        last = max(of_a)
        kept = sum(started <= at <= last for at in of_a)
        rates[partition] = kept / ((last - started) * RATE / PARTITIONS)
    latency = {
        name: [e.latency_s for e in stream.seen if start <= e.at < end]
        for name, start, end in (
            ("A alone", 5, started),
            ("handover", started, ended),
            ("B alone", ended + 1, stream.now()),
        )
    }
    report.parent.mkdir(parents=True, exist_ok=True)
    draw(stream, started, ended, report.with_suffix(".png"))
    lines = "\n".join(
        f"| {p} | {moves[p] - started:.1f} | {gaps[p]:.2f} | {rates[p]:.2f} |"
        for p in range(PARTITIONS)
    )
    delays = "\n".join(
        f"| {name} | {1_000 * statistics.median(values):,.0f} |"
        f" {1_000 * statistics.quantiles(values, n=100)[98]:,.0f} |"
        for name, values in latency.items()
    )
    found = "each of them once" if once else f"{len(numbers):,} came out: NOT each of them once"
    text = f"""# Handover

`make handover`. One broker and both versions on one machine, {PARTITIONS} partitions, {RATE:,}
records a second. Version B was started beside version A with `handover=true`; A ended by itself
{ended - started:.1f} s later. {stream.sent:,} records went in; {found}.

| partition | moved after, s | longest gap, s | of its rate until it moved |
|---|---|---|---|
{lines}

| latency, end to end | p50, ms | p99, ms |
|---|---|---|
{delays}

![Records per second by version, and latency]({report.with_suffix(".png").name})
"""
    report.write_text(text, encoding="utf-8")
    print(text)
    held = max(gaps.values()) <= MOST_GAP_S and min(rates.values()) >= LEAST_RATE
    return 0 if once and held else 1


def draw(stream: Stream, started: float, ended: float, file: Path) -> None:
    """Rates by version above, latencies below."""
    seconds = range(int(stream.seen[-1].at))
    figure, (above, below) = plt.subplots(2, 1, figsize=(9, 6), sharex=True)
    for version in ("A", "B"):
        rate = [
            sum(e.version == version and s <= e.at < s + 1 for e in stream.seen) for s in seconds
        ]
        above.plot(seconds, rate, label=f"version {version}", drawstyle="steps-post")
    above.set_ylabel("records/s")
    above.legend()
    for quantile, name in ((49, "p50"), (98, "p99")):
        values = []
        for second in seconds:
            inside = [e.latency_s * 1_000 for e in stream.seen if second <= e.at < second + 1]
            values.append(
                statistics.quantiles(inside, n=100)[quantile] if len(inside) > 1 else None
            )
        below.plot(seconds, values, label=name, drawstyle="steps-post")
    below.set_ylabel("latency, ms")
    below.set_yscale("log")
    below.set_xlabel("s")
    below.legend()
    for axis in (above, below):
        axis.axvspan(started, ended, alpha=0.15)
    figure.tight_layout()
    figure.savefig(file, dpi=110)


if __name__ == "__main__":
    raise SystemExit(main())
