"""`make real-time-soak`: an hour in real-time mode at an even rate, and what it does to memory.

One broker, a driver and two executors in processes of their own, one query, batches of Spark's own
length. Every record carries its number and the time at which it was due; a reader that shares no
code with the connector (librdkafka, `read_committed`) notes when each comes out. At the end of each
window the JVMs collect their garbage, and what they still hold is noted. The query and its batches
are those of a user; nothing is killed.

Exit code 0: every record came out once, and nothing grew by more than `MOST_MORE` and
`MOST_SLOWER` say. 1: otherwise.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from eoskafka.bench.stream import Arrivals, Reader, Stream, feed
from eoskafka.cluster import LocalCluster
from harness import Application, Flow, Query

from faults.held import Held, ends, held

ROOT = Path(__file__).resolve().parent.parent.parent
RATE = 5_000
RECORD_BYTES = 100
# The harness gives an output four at most, and a stream is spread over as many.
PARTITIONS = 4
BATCH = "5 minutes"
WINDOW_S = 300
# The first windows: Java compiles, and pools of buffers and connections fill.
WARM_WINDOWS = 2
# How much more a process may have in the last third of the windows than in the first third after
# the warm-up: a little more than a steady one varies from window to window.
MOST_MORE = {
    "heap_mib": 5.0,
    "metaspace_mib": 2.0,
    "resident_mib": 20.0,
    "threads": 4.0,
    "files": 8.0,
}
MOST_SLOWER = 1.25


@dataclass(frozen=True)
class Window:
    """Some minutes of the soak; latencies in ms, `held` by the name of the process."""

    p50_ms: float
    p99_ms: float
    greatest_ms: float
    held: dict[str, Held]


def main() -> int:
    """Run it, write the report, and judge."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=int, default=60, help="a multiple of five, 20 at least")
    parser.add_argument("--report", type=Path, default=ROOT / "reports" / "real-time-soak.md")
    arguments = parser.parse_args()
    windows, rest = divmod(arguments.minutes * 60, WINDOW_S)
    if rest or windows < WARM_WINDOWS + 2:
        parser.error("--minutes must be a multiple of five, and 20 at least")
    stream = Stream(RATE, windows * WINDOW_S, RECORD_BYTES, PARTITIONS)
    arrivals = Arrivals(stream)
    looks: list[dict[str, Held]] = []
    with (
        tempfile.TemporaryDirectory(prefix="eoskafka-soak-") as folder,
        LocalCluster(data_dir=Path(folder) / "kafka", heap_mb=768) as cluster,
        _application(Path(folder)) as application,
    ):
        flow = Flow(cluster.bootstrap_servers, Path(folder) / "checkpoint", PARTITIONS)
        application.wait_executors(2)
        query = flow.start(application, transform="as_is", real_time=BATCH)
        with Reader(flow.servers, flow.output, PARTITIONS, arrivals) as reader:
            pids = _pids(cluster, application)
            looker = _Looker(windows, lambda: looks.append(_look(pids)), query)
            with looker:
                feed(flow.servers, flow.input, stream)
            reader.wait()
        flow.wait_committed()
        batches = query.status().batches
        stopped = query.stop()
        assert stopped.error is None, stopped.error
        flow.assert_nothing_is_open()
    done = _windows(arrivals, looks)
    grown = growth(done)
    counted = arrivals.count()
    faults = {fault.value: number for fault, number in counted.faults.items() if number}
    text = _report(done, batches, stream.records, counted.records, faults, grown)
    arguments.report.write_text(text, encoding="utf-8")
    print(text)
    return 0 if counted.is_right and not grown else 1


def growth(windows: Sequence[Window]) -> list[str]:
    """What is greater in the last third of the windows than in the first after the warm-up."""
    steady = windows[WARM_WINDOWS:]
    found = []

    def compare(
        what: str, value: Callable[[Window], float], more: float = 0.0, factor: float = 1.0
    ) -> None:
        first, last = ends([*map(value, steady)])
        if last > first * factor + more:
            found.append(f"{what}: {first:,.1f}, then {last:,.1f}")

    for name in steady[0].held:
        for field, more in MOST_MORE.items():
            # A broker opens more files with each segment of a log, and the topics keep theirs.
            if (name, field) != ("broker", "files"):

                def value(window: Window, name: str = name, field: str = field) -> float:
                    return float(getattr(window.held[name], field))

                compare(f"{name}, {field}", value, more)
    compare("p50, ms", lambda window: window.p50_ms, factor=MOST_SLOWER)
    compare("p99, ms", lambda window: window.p99_ms, factor=MOST_SLOWER)
    return found


class _Looker:
    """Looks at the end of each window while records are sent; a context manager."""

    def __init__(self, windows: int, look: Callable[[], None], query: Query) -> None:
        self._windows = windows
        self._look = look
        self._query = query
        self._ended = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *error: object) -> None:
        if error[0] is not None:
            self._ended.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        began = time.monotonic()
        try:
            for number in range(1, self._windows + 1):
                # The last look is a little early: the query must still be busy.
                if self._ended.wait(began + number * WINDOW_S - 2 - time.monotonic()):
                    return
                status = self._query.status()
                assert status.active, status.error
                self._look()
                print(f"{number * WINDOW_S // 60} minutes", flush=True)
        except BaseException as failure:
            self._failure = failure


def _application(folder: Path) -> Application:
    logging = folder / "log4j2.properties"
    return Application(
        folder,
        "local-cluster[2,1,1024]",
        {
            # As a user's JVM is, and not as the tests' small ones; with its whole heap from the
            # start, so that what is resident does not grow with it.
            "spark.driver.extraJavaOptions": "-Xms768m",
            "spark.executor.extraJavaOptions": f"-Xms512m -Dlog4j2.configurationFile={logging}",
        },
    )


def _pids(cluster: LocalCluster, application: Application) -> dict[str, int]:
    executors = application.executors()
    broker = cluster.brokers[0].pid
    assert broker is not None
    return {
        "driver": application.driver_jvm(),
        **{f"executor {n}": each.id.pid for n, each in enumerate(executors, 1)},
        "broker": broker,
    }


def _look(pids: dict[str, int]) -> dict[str, Held]:
    return {name: held(pid) for name, pid in pids.items()}


def _windows(arrivals: Arrivals, looks: list[dict[str, Held]]) -> list[Window]:
    per_window = np.split(arrivals.latencies_ms(), len(looks))
    return [
        Window(float(p50), float(p99), float(greatest), each)
        for of, each in zip(per_window, looks, strict=True)
        for p50, p99, greatest in [np.percentile(of, [50, 99, 100])]
    ]


def _report(
    windows: list[Window],
    batches: int,
    records: int,
    out: int,
    faults: dict[str, int],
    grown: list[str],
) -> str:
    names = list(windows[0].held)
    minutes = [number * WINDOW_S // 60 for number in range(1, len(windows) + 1)]

    def table(heads: Sequence[str], cells: Callable[[Window], Sequence[str]]) -> str:
        lines = [f"| minute | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]
        lines += [
            f"| {minute} | {' | '.join(cells(window))} |"
            for minute, window in zip(minutes, windows, strict=True)
        ]
        return "\n".join(lines)

    latency = table(
        ("p50, ms", "p99, ms", "slowest, ms"),
        lambda w: [f"{ms:,.0f}" for ms in (w.p50_ms, w.p99_ms, w.greatest_ms)],
    )
    heaps = table(names, lambda w: [_memory(w.held[name]) for name in names])
    others = table(
        names, lambda w: [f"{w.held[name].threads} / {w.held[name].files}" for name in names]
    )
    warm_up = f"{WARM_WINDOWS * WINDOW_S // 60} minutes"
    bounds = ", ".join(f"{field} {more:g}" for field, more in MOST_MORE.items())
    return f"""# Soak in real-time mode: {minutes[-1]} minutes at {RATE:,} records/s

`make real-time-soak`. One broker, a driver, two executors with a core each, all on one machine;
{PARTITIONS} partitions, records of {RECORD_BYTES} B, a commit every 100 ms, batches of {BATCH}.

{records:,} records went in, {out:,} came out; lost, doubled, altered or unexpected:
{faults or "none"}. {batches} batches ended.

Greater in the last third of the time than in the first after {warm_up}, by more than
{bounds}, or latency by more than {MOST_SLOWER - 1:.0%}:
{"; ".join(grown) or "nothing"}. A broker opens more files with each segment of its topics' logs.

From where a record was due to where a `read_committed` reader had it. The first window has the
query's start in it; each further one has a batch's end, where reading stands still; and each has a
full collection of each JVM:

{latency}

MiB after a full collection: heap, classes, resident:

{heaps}

Threads and open files:

{others}
"""


def _memory(of: Held) -> str:
    return f"{of.heap_mib:.1f} / {of.metaspace_mib:.1f} / {of.resident_mib:,.0f}"


if __name__ == "__main__":
    raise SystemExit(main())
