"""Tables in SQL: what is read and written by name obeys the rules of a DataFrame's write."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from eoskafka.audit import read_committed
from harness.versions import reports
from pyspark import inheritable_thread_target
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from streams import Streams, kv

ROWS = 20


def table(streams: Streams, topic: str, kind: str = "TABLE", **options: str) -> str:
    """A new table, or a view, over one topic, which is its source and its sink."""
    name = f"sql_{topic}"
    given = {"kafka.bootstrap.servers": streams.servers, "subscribe": topic, "topic": topic}
    given |= options
    listed = ", ".join(f"`{option}` '{value}'" for option, value in given.items() if value)
    streams.spark.sql(f"CREATE {kind} {name} USING {streams.form} OPTIONS ({listed})")
    return name


def refused(streams: Streams, statement: str) -> str:
    """The error of a statement."""
    with pytest.raises(PySparkException) as error:
        streams.spark.sql(statement).collect()
    return str(error.value)


def values(streams: Streams, name: str) -> list[int]:
    """What SQL reads."""
    rows = streams.spark.sql(f"SELECT CAST(value AS STRING) AS value FROM {name}").collect()
    return sorted(int(row.value) for row in rows)


# ---- tables


def test_a_table_is_read_as_the_built_in_connectors_is(either: Streams) -> None:
    topic = either.topic(records=3)
    name = table(either, topic)
    assert values(either, name) == [0, 1, 2]
    either.send(topic, 3)
    assert values(either, name) == [0, 1, 2, 3]
    described = [row.col_name for row in either.spark.sql(f"DESCRIBE {name}").collect()]
    columns = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    assert described[:7] == columns


def test_a_table_is_written_by_name(streams: Streams) -> None:
    topic = streams.topic()
    name = table(streams, topic)
    spark = streams.spark
    spark.sql(f"INSERT INTO {name} (key, value) VALUES ('k', '0'), ('k', '1')")
    spark.sql(f"INSERT INTO {name} SELECT '2' AS value, 'k' AS key")
    spark.sql(f"INSERT INTO {name} BY NAME SELECT '3' AS value, 'k' AS key")
    four = spark.sql("SELECT 'k' AS key, '4' AS value")
    four.writeTo(name).append()
    spark.sql("SELECT 'k' AS key, '5' AS value").write.insertInto(name)
    assert streams.numbers(topic) == values(streams, name) == [*range(6)]
    assert {record.key for record in read_committed(streams.servers, topic)} == {b"k"}


def test_a_table_of_a_sink_alone_and_a_view_are_written(streams: Streams) -> None:
    topic = streams.topic()
    sink = table(streams, topic, subscribe="")
    streams.spark.sql(f"INSERT INTO {sink} (value) VALUES ('0')")
    assert "[EOSKAFKA_OPTION_MISSING]" in refused(streams, f"SELECT * FROM {sink}")
    other = streams.topic()
    view = table(streams, other, "TEMPORARY VIEW", subscribe="")
    streams.spark.sql(f"INSERT INTO {view} SELECT value FROM (SELECT '1' AS value)")
    assert (streams.numbers(topic), streams.numbers(other)) == ([0], [1])


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("INSERT INTO {t} VALUES ('k', 'v')", "it has no column 'value'"),
        ("INSERT INTO {t} (value) VALUES (1)", "column 'value' must be string or binary"),
        ("INSERT OVERWRITE {t} (value) VALUES ('v')", "does not support truncate"),
        ("TRUNCATE TABLE {t}", "does not support truncate"),
    ],
)
def test_a_statement_that_does_not_fit_writes_nothing(
    streams: Streams, statement: str, reason: str
) -> None:
    topic = streams.topic(records=2)
    name = table(streams, topic)
    assert reason in refused(streams, statement.format(t=name))
    assert streams.numbers(topic) == [0, 1]


def test_options_of_a_table_are_checked(streams: Streams) -> None:
    topic = streams.topic(records=2)
    misspelt = table(streams, topic, startingOfsets="latest")
    assert "[EOSKAFKA_UNKNOWN_OPTION]" in refused(streams, f"SELECT * FROM {misspelt}")
    insert = f"INSERT INTO {misspelt} (value) VALUES ('v')"
    assert "[EOSKAFKA_UNKNOWN_OPTION]" in refused(streams, insert)
    other = streams.topic()
    task = table(streams, other, transactionScope="task")
    insert = f"INSERT INTO {task} (value) VALUES ('v')"
    assert "a batch write is always in epoch scope" in refused(streams, insert)
    assert (streams.numbers(topic), streams.numbers(other)) == ([0, 1], [])


# ---- once


def test_a_task_that_fails_and_is_tried_again_writes_its_rows_once(streams: Streams) -> None:
    topic = streams.topic()
    name = table(streams, topic)
    spark = streams.spark
    failed = f"failed-{topic}"
    # Fails at a task's last row, in the first attempt only.
    code = f"""
        CASE WHEN id % 10 = 9 AND java_method('java.lang.System', 'setProperty', '{failed}' ||
            spark_partition_id(), 'x') IS NULL
        THEN raise_error('try again') ELSE CAST(id AS STRING) END
    """
    spark.sql(f"INSERT INTO {name} SELECT {code} AS value FROM range(0, {ROWS}, 1, 2)")
    assert spark._jvm.System.getProperty(f"{failed}0") == "x"  # type: ignore[union-attr]
    assert streams.numbers(topic) == [*range(ROWS)]
    every = f"INSERT INTO {name} SELECT assert_true(id < 5, 'no'), CAST(id AS STRING) AS value"
    assert "no" in refused(streams, f"{every} FROM range(0, {ROWS}, 1, 2)")
    assert streams.numbers(topic) == [*range(ROWS)]


def test_a_statement_with_a_name_can_be_repeated(streams: Streams) -> None:
    topic = streams.topic()
    name = table(streams, topic)
    insert = f"INSERT INTO {name} WITH (`writeId` = '{topic}') (value)"
    for _ in range(2):
        streams.spark.sql(f"{insert} VALUES ('0')")
    assert "[EOSKAFKA_WRITE_ID_USED]" in refused(streams, f"{insert} VALUES ('1')")
    assert streams.numbers(topic) == [0]


# ---- inside foreachBatch


def in_batches(
    streams: Streams, insert: Callable[[SparkSession, int], None], checkpoint: str, topic: str
) -> str:
    """The error, or nothing, of a query whose function runs statements over a view `batch`."""

    def write(batch: DataFrame, number: int) -> None:
        kv(batch).createOrReplaceTempView("batch")
        insert(batch.sparkSession, number)

    writer = (
        streams.source(topic, {"maxOffsetsPerTrigger": ROWS // 2})
        .writeStream.foreachBatch(write)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
    )
    try:
        streams.run(writer)
    except PySparkException as error:
        return str(error)
    return ""


def test_a_statement_in_foreach_batch_takes_effect_once_per_batch(streams: Streams) -> None:
    topic, output = streams.topic(records=ROWS), streams.topic()
    name, checkpoint = table(streams, output), str(streams.checkpoint())
    calls = list[int]()

    def insert(spark: SparkSession, number: int) -> None:
        calls.append(number)
        spark.sql(f"INSERT INTO {name} SELECT key, value FROM batch")
        if calls == [0, 1]:
            raise ValueError("after the write")

    assert "after the write" in in_batches(streams, insert, checkpoint, topic)
    assert streams.numbers(output) == [*range(ROWS)]
    assert in_batches(streams, insert, checkpoint, topic) == ""
    assert calls == [0, 1, 1]
    assert streams.numbers(output) == [*range(ROWS)]


@pytest.mark.slow
def test_two_statements_in_foreach_batch_need_names(streams: Streams) -> None:
    topic, output = streams.topic(records=ROWS), streams.topic()
    name = table(streams, output)

    def insert(spark: SparkSession, _: int) -> None:
        for _ in range(2):
            spark.sql(f"INSERT INTO {name} SELECT key, value FROM batch")

    error = in_batches(streams, insert, str(streams.checkpoint()), topic)
    assert "[EOSKAFKA_SECOND_WRITE]" in error, error
    assert len(streams.numbers(output)) == ROWS // 2


def test_a_statement_on_a_thread_of_its_own_is_refused(streams: Streams) -> None:
    topic, output = streams.topic(records=ROWS), streams.topic()
    name = table(streams, output)

    def insert(spark: SparkSession, _: int) -> None:
        statement = f"INSERT INTO {name} (value) VALUES ('not of the batch')"
        with ThreadPoolExecutor(1) as pool:
            pool.submit(inheritable_thread_target(spark)(lambda: spark.sql(statement))).result()

    error = in_batches(streams, insert, str(streams.checkpoint()), topic)
    assert "[EOSKAFKA_WRITE_OFF_THREAD]" in error, error
    assert streams.values(output) == []


# ---- streams


@pytest.mark.parametrize("scope", ["task", "epoch"])
def test_a_stream_that_writes_to_a_table_has_its_options(streams: Streams, scope: str) -> None:
    topic, output, checkpoint = streams.topic(records=5), streams.topic(), streams.checkpoint()
    name = table(streams, output, transactionScope=scope)

    def copied() -> None:
        writer = kv(streams.source(topic)).writeStream.trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(checkpoint)).toTable(name)
        assert query.awaitTermination(60)
        (batch,) = [p for p in reports(query) if p.numInputRows]
        assert (batch.sink.metrics or {})["transactionScope"] == scope

    copied()
    streams.send(topic, *range(5, 9))
    copied()
    assert streams.numbers(output) == [*range(9)]
