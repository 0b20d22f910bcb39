"""Errors of the connector as Python's exceptions: what `except eoskafka.FencedError` catches."""

from __future__ import annotations

import json
import shutil
import time
import uuid
from contextlib import closing
from pathlib import Path
from typing import Any

import eoskafka
import pytest
from eoskafka import failures
from eoskafka.cluster import LocalCluster
from harness import until
from kafka import TopicPartition
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.errors.exceptions import captured
from pyspark.sql.streaming import StreamingQuery
from streams import QUERY_S, Streams, kv


def test_a_query_that_fails_raises_the_class_of_its_condition(streams: Streams) -> None:
    topic, output, checkpoint = streams.topic(partitions=1), streams.topic(), streams.checkpoint()
    streams.send(topic, 0)
    streams.copy(topic, output, checkpoint)
    streams.send(topic, 1, 2, 3)
    streams.admin.delete_records({TopicPartition(topic, 0): 3})
    query = streams.start(streams.sink(kv(streams.source(topic)), output, checkpoint))
    with pytest.raises(eoskafka.DataLossError) as error:
        query.awaitTermination(QUERY_S)
    assert error.value.condition == "EOSKAFKA_DATA_LOSS"
    assert isinstance(error.value, StreamingQueryException)
    assert "Streaming Query" in str(error.value)
    found = eoskafka.error_of(query.exception())
    assert isinstance(found, eoskafka.DataLossError)
    assert str(found).startswith("[EOSKAFKA_DATA_LOSS] The next offset of")
    assert "\n" not in str(found)


def test_what_spark_refuses_at_once_too(streams: Streams) -> None:
    options = {"kafka.bootstrap.servers": streams.servers, "subscirbe": "payments"}
    with pytest.raises(eoskafka.ConfigurationError) as error:
        streams.spark.read.format("eoskafka").options(**options).load().collect()
    assert error.value.condition == "EOSKAFKA_UNKNOWN_OPTION"
    assert isinstance(error.value, PySparkException)


def test_sparks_own_errors_stay_as_they_are(streams: Streams) -> None:
    with pytest.raises(PySparkException) as error:
        streams.spark.sql("select nothing").collect()
    assert not isinstance(error.value, eoskafka.EosKafkaError)


def test_a_driver_that_another_one_has_fenced(streams: Streams) -> None:
    topic, output, checkpoint = streams.topic(records=4), streams.topic(), streams.checkpoint()
    rows = kv(streams.source(topic, {"kafka.group.id": streams.group()}))

    def started(place: str) -> StreamingQuery:
        writer = streams.sink(rows, output).option("checkpointLocation", place)
        return streams.start(writer.trigger(processingTime="100 milliseconds"))

    first = started(str(checkpoint))
    until(lambda: streams.numbers(output) == [0, 1, 2, 3], "the first batch", QUERY_S)
    until(lambda: sum(p.numInputRows for p in first.recentProgress) == 4, "its report", QUERY_S)
    copy = checkpoint.with_name("copy")
    shutil.copytree(checkpoint, copy)
    # Spark runs no query twice in one session; this one it takes for another.
    (copy / ".metadata.crc").unlink()
    (copy / "metadata").write_text(json.dumps({"id": str(uuid.uuid4())}))
    started(str(copy))
    with pytest.raises(eoskafka.FencedError):
        first.awaitTermination(QUERY_S)


def test_beside_a_package_that_wraps_the_same_function(
    streams: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As delta-spark does, whichever comes first."""
    original = captured.convert_exception
    monkeypatch.setattr(captured, "convert_exception", lambda raised: original(raised))
    failures.install()
    topic = streams.topic()
    writer = streams.sink(kv(streams.source("no-such-topic")), topic)
    with pytest.raises(eoskafka.ConfigurationError):
        streams.start(writer).awaitTermination(QUERY_S)


@pytest.mark.slow
def test_brokers_that_are_gone_are_waited_for_without_a_flood(
    streams: Streams, spark_folder: Path, tmp_path: Path
) -> None:
    """An executor's client outlives its query; it must neither spin nor fill the log."""
    log = spark_folder / "spark.log"
    with (
        LocalCluster(brokers=1, data_dir=tmp_path / "brokers") as gone,
        closing(Streams(streams.spark, gone.bootstrap_servers, tmp_path)) as there,
    ):
        topic, output = there.topic(records=4), there.topic()
        there.copy(topic, output, there.checkpoint())
        assert there.numbers(output) == [0, 1, 2, 3]
    # Longer than the client's metadata are taken for new: 5 s.
    time.sleep(7)
    size, used, start = log.stat().st_size, cpu_s(streams, "eoskafka-executor"), time.monotonic()
    time.sleep(4)
    assert cpu_s(streams, "eoskafka-executor") - used < 0.2 * (time.monotonic() - start)
    assert log.stat().st_size - size < 200_000


def cpu_s(streams: Streams, client: str) -> float:
    """CPU seconds that the threads of these clients have used."""
    jvm: Any = streams.spark._jvm
    threads = jvm.java.lang.management.ManagementFactory.getThreadMXBean()
    infos = [threads.getThreadInfo(number) for number in threads.getAllThreadIds()]
    ours = [info.getThreadId() for info in infos if info and client in info.getThreadName()]
    assert ours, f"no thread of {client}"
    return float(sum(threads.getThreadCpuTime(number) for number in ours) / 1e9)
