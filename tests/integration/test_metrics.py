"""What progress reports and Spark's SQL view tell of a query."""

from __future__ import annotations

import io
import time
import urllib.request
from contextlib import closing

import eoskafka
import pytest
from eoskafka import metrics
from harness import until
from harness.otlp import OtlpReceiver
from kafka import KafkaProducer, TopicPartition
from kafka.structs import OffsetAndMetadata
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql.functions import udf
from pyspark.sql.streaming import StreamingQuery
from rich.console import Console
from streams import LARGE, QUERY_S, SMALL_FETCHES, Streams, held, kv


def progress(query: StreamingQuery) -> list[dict[str, str]]:
    """The sink's metrics of each batch that had rows."""
    return [dict(p.sink.metrics) for p in query.recentProgress if p.numInputRows > 0]


def waits_to_commit(query: StreamingQuery) -> list[bool]:
    """Of each batch that had rows, whether its commit latency is a part of its time."""
    return [
        0 < int(p.sink.metrics["commitLatencyMs"]) <= p.durationMs["addBatch"]
        for p in query.recentProgress
        if p.numInputRows > 0
    ]


def sql_metrics(streams: Streams) -> dict[str, str]:
    """The metrics of the last execution in Spark's SQL view, by what it calls them."""
    streams.spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(10_000)
    store = streams.spark._jsparkSession.sharedState().statusStore()
    execution = max(
        store.executionsList().apply(i).executionId() for i in range(store.executionsList().size())
    )
    values = store.executionMetrics(execution)
    named = store.execution(execution).get().metrics()
    metrics = [named.apply(i) for i in range(named.size())]
    return {
        metric.name(): values.apply(metric.accumulatorId())
        for metric in metrics
        if values.contains(metric.accumulatorId())
    }


def failing_once(rows: DataFrame) -> DataFrame:
    """Rows whose first attempt fails at value 399: Python gets a hundred at a time."""

    def fail(value: bytearray) -> bytearray:
        context = TaskContext.get()
        assert context is not None
        if context.attemptNumber() == 0 and bytes(value) == b"399":
            time.sleep(1)  # until the records before it are in their transaction
            raise ValueError("this attempt fails")
        return value

    return rows.select("key", udf(fail, "binary", useArrow=False)("value").alias("value"))


def test_progress_tells_how_far_a_query_is_behind(streams: Streams) -> None:
    topic, output = streams.topic(records=20), streams.topic()
    query = streams.copy(topic, output, options={"maxOffsetsPerTrigger": 8})
    first, last = query.recentProgress[0], query.recentProgress[-1]
    (source,) = first["sources"]
    behind = {name: value for name, value in source["metrics"].items() if "Behind" in name}
    assert behind == {
        "minOffsetsBehindLatest": "6",
        "maxOffsetsBehindLatest": "6",
        "avgOffsetsBehindLatest": "6.0",
    }
    (source,) = last["sources"]
    assert source["metrics"]["maxOffsetsBehindLatest"] == "0"


def test_a_query_without_a_batch_tells_nothing(streams: Streams) -> None:
    topic, output = streams.topic(), streams.topic()
    query = streams.copy(topic, output)
    (report,) = query.recentProgress
    assert report.sources[0].metrics["maxOffsetsBehindLatest"] == "0"
    assert progress(query) == []


def test_transactions_of_a_batch_in_task_scope(streams: Streams) -> None:
    topic, output = streams.topic(records=40), streams.topic()
    query = streams.copy(topic, output, options={"maxOffsetsPerTrigger": 20})
    batches = progress(query)
    assert len(batches) == 2
    assert waits_to_commit(query) == [True, True]
    for batch in batches:
        del batch["commitLatencyMs"]
        assert batch == {
            "transactionScope": "task",
            "transactionsCommitted": "2",
            "transactionsAborted": "0",
            "fencedAttempts": "0",
        }


@pytest.mark.parametrize("scope", ["task", "epoch"])
def test_a_transaction_that_was_given_up_is_counted(streams: Streams, scope: str) -> None:
    topic, output = streams.topic(records=400), streams.topic()
    rows = failing_once(streams.source(topic, {"slots": 1}))
    query = streams.run(streams.sink(rows, output, options={"transactionScope": scope}))
    (batch,) = progress(query)
    assert batch["transactionScope"] == scope
    assert batch["transactionsCommitted"] == "1"
    assert batch["transactionsAborted"] == "1"
    assert batch["fencedAttempts"] == "0"
    assert streams.numbers(output) == [*range(400)]


@pytest.mark.parametrize("scope", ["task", "epoch"])
def test_sparks_sql_view_has_them_too(streams: Streams, scope: str) -> None:
    topic, output = streams.topic(records=40), streams.topic()
    rows = kv(streams.source(topic))
    query = streams.run(streams.sink(rows, output, options={"transactionScope": scope}))
    assert waits_to_commit(query) == [True]
    shown = sql_metrics(streams)
    assert shown["number of output rows"] == "40"
    assert shown["transactions committed"] == "2"
    assert shown["transactions aborted"] == "0"
    assert shown["attempts fenced"] == "0"
    (batch,) = progress(query)
    assert shown["commit latency (ms)"] == batch["commitLatencyMs"]
    assert shown["number of fetches out of a log's range"] == "0"
    assert shown["number of ranges with lost records"] == "0"


def test_what_tasks_wait_for_stable_offsets_is_told(streams: Streams) -> None:
    topic, output, group = streams.topic(partitions=4, records=8), streams.topic(), streams.group()
    rows = streams.source(topic, {"slots": 4, "kafka.group.id": group})
    # Two tasks run at a time: the last two begin when the first two have rested.
    rows = rows.selectExpr("key", "value", "if(partition < 2, offset, -1) as offset")
    query = streams.start_held(streams.sink(held(rows, topic), output), topic)
    ident = f"{group}-another"
    with closing(
        KafkaProducer(bootstrap_servers=streams.servers, transactional_id=ident)
    ) as another:
        another.init_transactions()
        another.begin_transaction()
        open_offsets = {TopicPartition(topic, p): OffsetAndMetadata(1, "", -1) for p in (2, 3)}
        another.send_offsets_to_transaction(open_offsets, group)
        first = {0: 2, 1: 2}
        until(
            lambda: first.items() <= streams.offsets(group, topic).items(),
            "the end of the first tasks",
            QUERY_S,
        )
        time.sleep(1.5)
        another.abort_transaction()
    assert query.awaitTermination(QUERY_S)
    assert streams.numbers(output) == [0, 0, *range(2, 8)]
    (source,) = query.recentProgress[0]["sources"]
    assert int(source["metrics"]["stableOffsetWaitMs"]) >= 1_000
    assert int(sql_metrics(streams)["wait for stable offsets (ms)"]) >= 1_000


# ---- records that are gone between planning and reading

RECORDS = 400


def losing(streams: Streams, fail: bool) -> tuple[StreamingQuery, str]:
    """A query that has ended: while its task held the first records, all but the last 100 went."""
    topic, output = streams.topic(partitions=1), streams.topic()
    streams.send_values(topic, *(f"{n}{LARGE}" for n in range(RECORDS)))
    rows = streams.source(topic, {"failOnDataLoss": fail, **SMALL_FETCHES})
    query = streams.start_held(streams.sink(held(rows, topic), output), topic)
    streams.admin.delete_records({TopicPartition(topic, 0): RECORDS - 100})
    until(lambda: not query.isActive, "the query's end", QUERY_S)
    return query, output


def test_records_gone_while_they_are_read_are_an_error(streams: Streams) -> None:
    query, output = losing(streams, fail=True)
    error = str(query.exception())
    assert "[EOSKAFKA_DATA_LOSS_WHILE_READING]" in error
    assert "the log now starts at 300" in error
    assert streams.values(output) == []


def test_or_are_left_out_and_counted(streams: Streams) -> None:
    query, output = losing(streams, fail=False)
    assert query.exception() is None
    numbers = streams.numbers(output)
    assert numbers[-100:] == [*range(RECORDS - 100, RECORDS)]
    assert numbers[:-100] == [*range(len(numbers) - 100)]
    assert 0 < len(numbers) < RECORDS
    shown = sql_metrics(streams)
    assert shown["number of fetches out of a log's range"] == "1"
    assert shown["number of ranges with lost records"] == "1"
    (source,) = query.recentProgress[0]["sources"]
    assert source["metrics"]["offsetOutOfRange"] == source["metrics"]["dataLoss"] == "1"


def test_prometheus_is_told_of_running_queries(streams: Streams) -> None:
    with metrics.export(streams.spark, port=0, address="127.0.0.1") as exporter:
        streams.copy(streams.topic(records=40), streams.topic())
        address = f"http://127.0.0.1:{exporter.port}/metrics"

        def rows() -> list[str]:
            with urllib.request.urlopen(address, timeout=10) as answer:
                text = answer.read().decode()
            return [line for line in text.splitlines() if line.startswith("eoskafka_rows_total{")]

        until(lambda: any(line.endswith(" 40.0") for line in rows()), "its report", QUERY_S)
        with pytest.raises(eoskafka.ConfigurationError, match="cannot be served"):
            metrics.export(streams.spark, port=exporter.port, address="127.0.0.1")
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(address, timeout=10)


def test_a_terminal_shows_running_queries(streams: Streams) -> None:
    text = io.StringIO()
    with metrics.live(streams.spark, Console(file=text, force_terminal=True, width=120)) as board:
        streams.copy(streams.topic(records=40), streams.topic())
        until(lambda: any(q.totals["rows"] == 40 for q in board.queries()), "its report", QUERY_S)
    assert "rows/s" in text.getvalue()


def test_opentelemetry_sends_what_a_query_reports(streams: Streams) -> None:
    topic, output = streams.topic(records=40), streams.topic()
    with OtlpReceiver() as receiver:
        exporter = OTLPMetricExporter(f"{receiver.url}/v1/metrics")
        meters = MeterProvider([PeriodicExportingMetricReader(exporter)])
        tracers = TracerProvider()
        spans_to = OTLPSpanExporter(f"{receiver.url}/v1/traces")
        tracers.add_span_processor(BatchSpanProcessor(spans_to))
        try:
            with metrics.instrument(streams.spark, meters, tracers):
                query = streams.copy(topic, output, options={"maxOffsetsPerTrigger": 20})
                streams.spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(10_000)
                meters.force_flush()
        finally:
            tracers.shutdown()
            meters.shutdown()
    sent = ExportMetricsServiceRequest.FromString(receiver.first("/v1/metrics"))
    found = {each.name: each for each in sent.resource_metrics[0].scope_metrics[0].metrics}
    (rows,) = found["eoskafka.rows"].sum.data_points
    assert rows.as_int == 40
    assert [each.value.string_value for each in rows.attributes] == [str(query.id)]
    (committed,) = found["eoskafka.transactions_committed"].sum.data_points
    assert committed.as_int == 4
    (latency,) = found["eoskafka.commit_latency"].gauge.data_points
    assert latency.as_double > 0
    assert found["eoskafka.commit_latency"].unit == "s"
    traces = ExportTraceServiceRequest.FromString(receiver.first("/v1/traces"))
    spans = traces.resource_spans[0].scope_spans[0].spans
    durations = [p.durationMs["triggerExecution"] for p in query.recentProgress if p.numInputRows]
    assert [
        (span.end_time_unix_nano - span.start_time_unix_nano) // 10**6 for span in spans
    ] == durations
