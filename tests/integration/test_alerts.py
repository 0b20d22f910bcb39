"""Each alert of conf/prometheus-alerts.yml fires for its own fault, and no other alert does.

A drill runs a query, causes a fault and samples the exporter's page every second. promtool, of
Debian's package `prometheus`, then evaluates the rules on these samples; it takes each second for
a minute, because the rules wait for minutes.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing
from pathlib import Path

import pytest
from eoskafka import metrics
from eoskafka.cluster import LocalCluster
from faults.cluster import FaultyCluster
from harness import until
from harness.waiting import again_and_again
from kafka import KafkaProducer
from pyspark.sql import DataFrame
from pyspark.sql.streaming import StreamingQuery
from sessions import settings
from streams import QUERY_S, Options, Streams, kv

RULES = Path(__file__).parents[2] / "conf" / "prometheus-alerts.yml"
MINUTE_S = 1.0
HEALTHY_S = 20
UP = 'up{job="eoskafka"}'
LAST_REPORT = "eoskafka_last_report_timestamp_seconds"
FIRING = 'count by (alertname) (ALERTS{alertstate="firing"})'

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed"),
]


class Samples:
    """What the exporter of a session serves, once a second; a context manager."""

    def __init__(self, streams: Streams) -> None:
        self._exporter = metrics.export(streams.spark, port=0, address="127.0.0.1")
        self._is_exported = True
        self._samples: list[dict[str, float]] = []
        self._began = time.time()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Samples:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self.stop_exporting()

    def stop_exporting(self) -> None:
        """As when the program ends."""
        if self._is_exported:
            self._is_exported = False
            self._exporter.close()

    def wait(self, seconds: float) -> None:
        """Until so many further samples were taken."""
        wanted = len(self._samples) + seconds / MINUTE_S
        until(lambda: len(self._samples) >= wanted, "further samples", 2 * seconds + QUERY_S)

    def value(self, name: str) -> float:
        """The last value of a metric, added up over its labels."""
        last = self._samples[-1] if self._samples else {}
        return sum(value for series, value in last.items() if series.partition("{")[0] == name)

    def _run(self) -> None:
        address = f"http://127.0.0.1:{self._exporter.port}/metrics"
        while not self._ended.wait(MINUTE_S):
            try:
                with urllib.request.urlopen(address, timeout=10) as answer:
                    lines = answer.read().decode().splitlines()
            except OSError:
                # As Prometheus notes it.
                self._samples.append({UP: 0.0})
                continue
            pairs = [line.rpartition(" ") for line in lines if line.startswith("eoskafka_")]
            self._samples.append({UP: 1.0, **{name: float(value) for name, _, value in pairs}})

    def assert_firing(self, *alerts: str, folder: Path) -> None:
        """These alerts and no other fire at the last sample."""
        samples = list(self._samples)
        names = sorted({name for sample in samples for name in sample})
        series = [
            {"series": name, "values": " ".join(self._cell(sample, name) for sample in samples)}
            for name in names
        ]
        expected = [{"labels": f'{{alertname="{alert}"}}', "value": 1} for alert in alerts]
        last = {"expr": FIRING, "eval_time": f"{len(samples) - 1}m", "exp_samples": expected}
        tests = {
            "rule_files": [str(RULES)],
            "evaluation_interval": "1m",
            "tests": [{"interval": "1m", "input_series": series, "promql_expr_test": [last]}],
        }
        file = folder / "alerts.json"
        file.write_text(json.dumps(tests), encoding="utf-8")
        done = subprocess.run(
            ["promtool", "test", "rules", str(file)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def _cell(self, sample: dict[str, float], name: str) -> str:
        if name not in sample:
            # Prometheus ends the series of a target that does not answer.
            return "_" if sample[UP] else "stale"
        if name.startswith(LAST_REPORT):
            # promtool's clock begins at 0.
            return f"{max(0.0, sample[name] - self._began) * 60 / MINUTE_S}"
        return f"{sample[name]}"


@pytest.fixture
def samples(streams: Streams) -> Iterator[Samples]:
    # Ten seconds without a report would be ten minutes.
    every = {"spark.sql.streaming.noDataProgressEventInterval": "500"}
    with settings(streams.spark, every), Samples(streams) as samples:
        yield samples


def fed(streams: Streams, topic: str) -> AbstractContextManager[None]:
    """Records keep coming inside the block."""
    return again_and_again(lambda: streams.send(topic, *range(20)), 0.2)


def start(
    streams: Streams,
    topic: str,
    plan: Callable[[DataFrame], DataFrame] = kv,
    servers: str | None = None,
    source: Options | None = None,
    sink: Options | None = None,
) -> StreamingQuery:
    """A query that goes on until the test ends, with these options of its source and its sink."""
    place = {"kafka.bootstrap.servers": servers or streams.servers}
    rows = plan(streams.source(topic, {**place, **(source or {})}))
    writer = streams.sink(rows, streams.topic(), options={**place, **(sink or {})})
    return streams.start(writer.trigger(processingTime="0 seconds"))


def test_a_query_that_works_or_waits_for_records_alerts_nobody(
    streams: Streams, samples: Samples, tmp_path: Path
) -> None:
    topic = streams.topic()
    start(streams, topic)
    with fed(streams, topic):
        samples.wait(HEALTHY_S)
        assert samples.value("eoskafka_rows_total") > 0
        samples.assert_firing(folder=tmp_path)
    samples.wait(HEALTHY_S)
    samples.assert_firing(folder=tmp_path)


def test_a_query_that_fails(streams: Streams, samples: Samples, tmp_path: Path) -> None:
    topic = streams.topic(records=1)
    start(streams, topic, lambda rows: rows.selectExpr("raise_error('no') as value"))
    until(lambda: samples.value("eoskafka_query_failed") == 1, "its failure", QUERY_S)
    samples.wait(2)
    samples.assert_firing("EoskafkaQueryFailed", folder=tmp_path)


def test_a_driver_that_is_gone(streams: Streams, samples: Samples, tmp_path: Path) -> None:
    topic = streams.topic(records=20)
    start(streams, topic)
    until(lambda: samples.value("eoskafka_rows_total") == 20, "its batch", QUERY_S)
    samples.stop_exporting()
    samples.wait(4)
    samples.assert_firing("EoskafkaDriverGone", folder=tmp_path)


def test_a_query_whose_broker_hangs(
    streams: Streams, cluster: LocalCluster, samples: Samples, tmp_path: Path
) -> None:
    topic = streams.topic()
    start(streams, topic)
    streams.send(topic, *range(20))
    until(lambda: samples.value("eoskafka_rows_total") == 20, "its first batch", QUERY_S)
    (broker,) = cluster.brokers
    broker.pause()
    try:
        # Without the end of a batch, the last report is older than ten samples.
        samples.wait(15)
        samples.assert_firing("EoskafkaQuerySilent", folder=tmp_path)
    finally:
        broker.resume()


def test_a_query_that_falls_behind(streams: Streams, samples: Samples, tmp_path: Path) -> None:
    topic = streams.topic(partitions=1)
    streams.send(topic, *range(101_000))
    start(streams, topic, source={"maxOffsetsPerTrigger": 1})
    with fed(streams, topic):
        # A quarter of an hour to see a trend, and another one until it counts.
        samples.wait(40)
        samples.assert_firing("EoskafkaFallsBehind", folder=tmp_path)


def test_attempts_that_are_fenced(streams: Streams, samples: Samples, tmp_path: Path) -> None:
    topic = streams.topic(records=20_000)
    pause = "reflect('java.lang.Thread', 'sleep', 20L) != ''"
    query = start(
        streams,
        topic,
        lambda rows: kv(rows.where(f"{pause} OR true")),
        source={"maxOffsetsPerTrigger": 100},
    )
    next_batch = 0

    def fence() -> bool:
        # Not twice in a batch: an attempt's retry that is fenced, too, would end the query.
        nonlocal next_batch
        if query.lastProgress is None or query.lastProgress["batchId"] < next_batch:
            return False
        for listed in streams.admin.list_transactions().values():
            for transaction in listed:
                if transaction.state.value == "Ongoing":
                    with closing(
                        KafkaProducer(
                            bootstrap_servers=streams.servers,
                            transactional_id=transaction.transactional_id,
                        )
                    ) as other:
                        other.init_transactions()
                    # What was fenced may be of the batch after the one that is listed.
                    next_batch = query.lastProgress["batchId"] + 2
        return samples.value("eoskafka_fenced_attempts_total") >= 8

    until(fence, "fenced attempts", QUERY_S)
    samples.wait(1)
    samples.assert_firing("EoskafkaAttemptsFenced", folder=tmp_path)


def test_commits_that_take_long(streams: Streams, samples: Samples, tmp_path: Path) -> None:
    with (
        FaultyCluster(tmp_path / "kafka", brokers=1) as cluster,
        closing(Streams(streams.spark, cluster.direct_servers, tmp_path)) as slow,
    ):
        (proxy,) = cluster.proxies.values()
        topic = slow.topic()
        start(slow, topic, servers=cluster.bootstrap_servers)
        slow.send(topic, *range(20))
        until(lambda: samples.value("eoskafka_rows_total") == 20, "its first batch", QUERY_S)
        proxy.delay(2.5)
        slow.send(topic, *range(20))
        until(lambda: samples.value("eoskafka_rows_total") == 40, "a slow batch", 2 * QUERY_S)
        proxy.mend()
        samples.wait(12)
        samples.assert_firing("EoskafkaCommitsSlowly", folder=tmp_path)


def test_batches_that_take_almost_too_long(
    streams: Streams, samples: Samples, tmp_path: Path
) -> None:
    topic = streams.topic(records=20)
    start(
        streams,
        topic,
        sink={
            "transactionScope": "epoch",
            "kafka.transaction.timeout.ms": 240_000,
            "recoveryReserveMs": 200_000,
        },
    )
    until(lambda: samples.value("eoskafka_rows_total") == 20, "its batch", QUERY_S)
    samples.wait(2)
    samples.assert_firing("EoskafkaEpochsNearTheirTimeout", folder=tmp_path)
