"""Sources that cannot return the same records again are refused, unless the sink allows them."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator

import pytest
from eoskafka.sparks import line
from harness.waiting import until
from pyspark.sql import DataFrame
from pyspark.sql.streaming import DataStreamWriter
from streams import Streams

RECORDS = 5
ALLOWED = {"allowNonReplayableSources": "true"}


class Lines(socketserver.BaseRequestHandler):
    """Sends the numbers from 0, one a line, and waits until the other side closes."""

    def handle(self) -> None:
        self.request.sendall("".join(f"{n}\n" for n in range(RECORDS)).encode())
        self.request.recv(1)


@pytest.fixture
def socket_rows(streams: Streams) -> Iterator[DataFrame]:
    """Spark's socket source."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Lines) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        host, port = str(server.server_address[0]), server.server_address[1]
        reader = streams.spark.readStream.format("socket").option("host", host)
        yield reader.option("port", port).load()
        server.shutdown()


def memory_rows(streams: Streams) -> DataFrame:
    """Spark's MemoryStream, which programs in Scala use in their tests."""
    spark, jvm = streams.spark, streams.spark._jvm
    streaming = jvm.org.apache.spark.sql.execution.streaming  # type: ignore[union-attr]
    package = streaming.runtime if line(spark.version) >= (4, 1) else streaming
    encoder = jvm.org.apache.spark.sql.Encoders.STRING()  # type: ignore[union-attr]
    memory = package.MemoryStream.apply(encoder, spark._jsparkSession)
    numbers = [str(n) for n in range(RECORDS)]
    memory.addData(jvm.PythonUtils.toSeq(numbers))  # type: ignore[union-attr]
    return DataFrame(memory.toDF(), spark)


def on_its_own(writer: DataStreamWriter) -> DataStreamWriter:
    """Batches as records come: a socket has none yet when a query begins."""
    return writer.trigger(processingTime="0 seconds")


def in_foreach_batch(streams: Streams, rows: DataFrame, output: str) -> DataStreamWriter:
    """The same sink, called by a function."""
    checkpoint = str(streams.checkpoint())
    writer = rows.writeStream.foreachBatch(lambda batch, _: streams.save(batch, output))
    return writer.option("checkpointLocation", checkpoint)


def assert_refused(streams: Streams, writer: DataStreamWriter, output: str, source: str) -> None:
    """The query ends with an error that names the source and the option; nothing was written."""
    error = streams.failure(on_its_own(writer))
    assert "[EOSKAFKA_SOURCE_NOT_REPLAYABLE]" in error, error
    assert f"The query reads from {source}" in error
    assert "set allowNonReplayableSources=true on the sink" in error
    assert streams.values(output) == []


def test_a_source_that_cannot_be_replayed_is_refused(
    streams: Streams, socket_rows: DataFrame
) -> None:
    output = streams.topic()
    assert_refused(streams, streams.sink(socket_rows, output), output, "TextSocketV2")
    assert_refused(streams, in_foreach_batch(streams, socket_rows, output), output, "TextSocketV2")
    memory = memory_rows(streams)
    assert_refused(streams, streams.sink(memory, output), output, "MemoryStream")


@pytest.mark.slow
def test_one_that_stands_beside_a_topic_is_refused(
    streams: Streams, socket_rows: DataFrame
) -> None:
    topic, output = streams.topic(), streams.topic()
    both = streams.source(topic).selectExpr("cast(value as string) value").union(socket_rows)
    assert_refused(streams, streams.sink(both, output), output, "TextSocketV2")


def test_it_can_be_allowed(streams: Streams, socket_rows: DataFrame) -> None:
    output = streams.topic()
    query = streams.start(on_its_own(streams.sink(socket_rows, output, options=ALLOWED)))
    until(lambda: len(streams.values(output)) >= RECORDS, "the socket's records", 60)
    assert streams.finished(query, output) == [*range(RECORDS)]


@pytest.mark.parametrize("source", ["rate", "rate-micro-batch"])
def test_the_rows_of_the_rate_sources_are_made_from_their_offsets(
    streams: Streams, source: str
) -> None:
    options = {"rowsPerSecond": 7} if source == "rate" else {"rowsPerBatch": 7}
    checkpoint, runs = str(streams.checkpoint()), list[list[tuple[object, ...]]]()

    def keep(batch: DataFrame, _: int) -> None:
        rows = sorted(map(tuple, batch.collect()))
        if rows:
            runs.append(rows)
            raise ValueError("run this batch again")

    for _ in range(2):
        rows = streams.spark.readStream.format(source).options(**options).load()
        writer = rows.writeStream.foreachBatch(keep).option("checkpointLocation", checkpoint)
        assert "run this batch again" in streams.failure(on_its_own(writer))
    first, second = runs
    assert first == second


def test_a_rate_source_needs_no_permission(streams: Streams) -> None:
    output = streams.topic()
    rows = streams.spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 7).load()
    streams.run(streams.sink(rows.selectExpr("cast(value as string) value"), output))
    assert streams.numbers(output) == [*range(7)]
