"""`registerTopics`: a transaction touches nothing that it has not registered (KIP-609)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from eoskafka.cluster import LocalCluster
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, lit, when
from streams import Streams, kv


@pytest.fixture(scope="module")
def version_1_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """One broker with transaction version 1, where producers register partitions themselves.

    It creates each topic that somebody asks for, as brokers do by default.
    """
    with LocalCluster(
        data_dir=tmp_path_factory.mktemp("version1"),
        features={"transaction.version": 1},
        properties={"auto.create.topics.enable": "true"},
    ) as cluster:
        yield cluster


@pytest.fixture
def version_1(
    shared_spark: SparkSession,
    version_1_cluster: LocalCluster,
    tmp_path: Path,
    keep_logs: list[Path],
) -> Iterator[Streams]:
    """Streams on that broker."""
    keep_logs += [broker.log_file for broker in version_1_cluster.brokers]
    servers = version_1_cluster.bootstrap_servers
    with closing(Streams(shared_spark, servers, tmp_path)) as streams:
        yield streams


@pytest.fixture(params=[1, 2], ids=["version 1", "version 2"])
def on(request: pytest.FixtureRequest) -> Streams:
    """Streams on a broker with either transaction version."""
    name = "version_1" if request.param == 1 else "streams"
    found = request.getfixturevalue(name)
    assert isinstance(found, Streams)
    return found


def by_topic(rows: DataFrame, even: str, odd: str) -> DataFrame:
    """Even numbers to one topic, odd ones to another."""
    value = col("value").cast("string")
    topic = when(value.cast("int") % 2 == 0, lit(even)).otherwise(lit(odd))
    return rows.select("key", "value", topic.alias("topic"))


@pytest.mark.parametrize("scope", ["task", "epoch"])
def test_what_is_registered_is_written_once(on: Streams, scope: str) -> None:
    topic, even, odd = on.topic(records=40), on.topic(), on.topic(partitions=3)
    registered = {"registerTopics": f"{even}, {odd}", "transactionScope": scope}
    checkpoint = on.checkpoint()
    for _ in range(2):
        rows = by_topic(on.source(topic, {"maxOffsetsPerTrigger": 10}), even, odd)
        on.run(on.sink(rows, None, checkpoint, registered))
        on.send(topic, *range(40, 60))
    assert on.numbers(even) == [*range(0, 60, 2)]
    assert on.numbers(odd) == [*range(1, 60, 2)]


@pytest.mark.parametrize("scope", ["task", "epoch"])
def test_a_record_elsewhere_is_refused_and_nothing_of_its_task_is_visible(
    on: Streams, scope: str
) -> None:
    topic, even, odd = on.topic(records=40), on.topic(), on.topic()
    registered = {"registerTopics": even, "transactionScope": scope}
    checkpoint = on.checkpoint()
    rows = by_topic(on.source(topic), even, odd)
    error = on.failure(on.sink(rows, None, checkpoint, registered))
    assert "[EOSKAFKA_TOPIC_NOT_REGISTERED]" in error
    assert f"A record is for {odd}, but registerTopics allows" in error
    assert on.ends(odd) == {0: 0, 1: 0}  # it was not even sent
    # Without the limit the query goes on where it was.
    rows = by_topic(on.source(topic), even, odd)
    on.run(on.sink(rows, None, checkpoint, {"transactionScope": scope}))
    assert on.numbers(even) == [*range(0, 40, 2)]
    assert on.numbers(odd) == [*range(1, 40, 2)]


@pytest.mark.parametrize("scope", ["task", "epoch"])
def test_a_topic_that_is_not_registered_is_not_created(version_1: Streams, scope: str) -> None:
    topic, output = version_1.topic(records=4), version_1.topic()
    misspelt = f"{output}x"
    rows = kv(version_1.source(topic)).withColumn("topic", lit(misspelt))
    options = {"registerTopics": output, "transactionScope": scope}
    error = version_1.failure(version_1.sink(rows, None, options=options))
    assert "[EOSKAFKA_TOPIC_NOT_REGISTERED]" in error
    assert misspelt not in version_1.admin.list_topics()


def test_a_partition_that_the_topic_does_not_have_is_refused_at_once(on: Streams) -> None:
    topic, output = on.topic(records=4), on.topic()
    rows = on.source(topic).select("value", lit(7).alias("partition"))
    error = on.failure(on.sink(rows, output, options={"registerTopics": output}))
    assert "[EOSKAFKA_TOPIC_NOT_REGISTERED]" in error
    assert f"{output}-7" in error


def test_a_batch_write_registers_too(on: Streams) -> None:
    output, other = on.topic(), on.topic()
    rows = on.spark.range(20).select(col("id").cast("string").alias("value"))
    options = {"kafka.bootstrap.servers": on.servers, "registerTopics": output}
    rows.withColumn("topic", lit(output)).write.format("eoskafka").options(**options).save()
    assert on.numbers(output) == [*range(20)]
    with pytest.raises(Exception, match="EOSKAFKA_TOPIC_NOT_REGISTERED"):
        rows.withColumn("topic", lit(other)).write.format("eoskafka").options(**options).save()


def test_a_registered_topic_that_does_not_exist_is_an_error_at_once(streams: Streams) -> None:
    topic, output = streams.topic(records=4), streams.topic()
    options = {"registerTopics": f"{output},nowhere"}
    error = streams.failure(streams.sink(kv(streams.source(topic)), output, options=options))
    assert "[EOSKAFKA_NO_SUCH_TOPIC]" in error
    assert "nowhere" in error


@pytest.mark.parametrize(
    ("registered", "expected"),
    [("a,,b", "topic names"), ("", "topic names"), ("a,b", "the value of the option topic")],
)
def test_what_cannot_be_registered_is_an_error(
    streams: Streams, registered: str, expected: str
) -> None:
    topic, output = streams.topic(records=4), streams.topic()
    options = {"registerTopics": registered}
    error = streams.failure(streams.sink(kv(streams.source(topic)), output, options=options))
    assert "[EOSKAFKA_OPTION_INVALID]" in error
    assert expected in error
