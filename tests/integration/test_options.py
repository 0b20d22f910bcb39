"""Options of source and sink: what each does, and what is refused before anything happens."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from eoskafka import EosKafkaError
from harness import until
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from streams import QUERY_S, Options, Streams, kv

SECRET = "s3cr3t-Zx81q"


def refusal(
    streams: Streams,
    source: Options | None = None,
    sink: Options | None = None,
    rows: DataFrame | None = None,
) -> str:
    """The error of a query with these options; it must fail, as it is loaded, planned or run."""

    def query() -> None:
        stream = kv(streams.source(options=source)) if rows is None else rows
        streams.run(streams.sink(stream, None, options={"topic": "nowhere", **(sink or {})}))

    with pytest.raises((EosKafkaError, PySparkException)) as caught:
        query()
    return str(caught.value)


# ---- names and values

SOURCE = {"subscribe": "some-topic"}
REFUSED_ON_SOURCE: dict[str, tuple[Options, list[str]]] = {
    "misspelt": (
        {**SOURCE, "startingOfsets": "latest"},
        ["EOSKAFKA_UNKNOWN_OPTION", "Did you mean startingOffsets?"],
    ),
    "never allowed": (
        {**SOURCE, "kafka.enable.auto.commit": "true"},
        ["EOSKAFKA_OPTION_REFUSED", "kafka.enable.auto.commit", "committed with the output"],
    ),
    "the sink's": ({**SOURCE, "topic": "t"}, ["EOSKAFKA_OPTION_WRONG_SIDE", "to the sink"]),
    "no topics": ({}, ["EOSKAFKA_OPTION_MISSING", "subscribe, subscribePattern or assign"]),
    "topics twice": (
        {**SOURCE, "subscribePattern": "some-.*"},
        ["EOSKAFKA_OPTION_INVALID", "only one of subscribe, subscribePattern and assign"],
    ),
    "no servers": (
        {**SOURCE, "kafka.bootstrap.servers": " "},
        ["EOSKAFKA_OPTION_MISSING", "The source needs the option kafka.bootstrap.servers"],
    ),
    "a limit of zero": (
        {**SOURCE, "maxOffsetsPerTrigger": 0},
        ["EOSKAFKA_OPTION_INVALID", "maxOffsetsPerTrigger is '0'"],
    ),
    "a limit that is no number": (
        {**SOURCE, "maxOffsetsPerTrigger": "1e3"},
        ["EOSKAFKA_OPTION_INVALID", "maxOffsetsPerTrigger is '1e3'"],
    ),
    "no slots": ({**SOURCE, "slots": -1}, ["EOSKAFKA_OPTION_INVALID", "slots is '-1'"]),
    "a switch that is neither": (
        {**SOURCE, "failOnDataLoss": "maybe"},
        ["EOSKAFKA_OPTION_INVALID", "failOnDataLoss is 'maybe'", "true or false"],
    ),
    "headers that are neither": (
        {**SOURCE, "includeHeaders": "maybe"},
        ["EOSKAFKA_OPTION_INVALID", "includeHeaders is 'maybe'", "true or false"],
    ),
    "an unknown isolation level": (
        {**SOURCE, "kafka.isolation.level": "serializable"},
        ["EOSKAFKA_OPTION_INVALID", "read_committed or read_uncommitted"],
    ),
    "ownership of neither kind": (
        {**SOURCE, "ownership": "mine"},
        ["EOSKAFKA_OPTION_INVALID", "ownership is 'mine'", "exclusive or shared"],
    ),
    "a shared group without a name": (
        {**SOURCE, "ownership": "shared"},
        ["EOSKAFKA_OPTION_MISSING", "kafka.group.id, which its drivers share"],
    ),
    "a shared group that is handed some partitions": (
        {"assign": '{"t":[0]}', "ownership": "shared", "kafka.group.id": "g"},
        ["EOSKAFKA_OPTION_INVALID", "exclusive with assign"],
    ),
    "a handover in a group of its own": (
        {**SOURCE, "handover": "true"},
        ["EOSKAFKA_OPTION_INVALID", "must be false unless ownership=shared"],
    ),
    "the consumer protocol in a group of its own": (
        {**SOURCE, "kafka.group.protocol": "consumer"},
        ["EOSKAFKA_OPTION_INVALID", "must be classic unless ownership=shared"],
    ),
    "assign without JSON": ({"assign": "t-0"}, ["EOSKAFKA_OPTION_INVALID", "assign is 't-0'"]),
    "assign of nothing": ({"assign": "{}"}, ["EOSKAFKA_OPTION_INVALID", "assign is '{}'"]),
    "assign of no list": (
        {"assign": '{"t":"all"}'},
        ["EOSKAFKA_OPTION_INVALID", "assign is"],
    ),
    "assign of no numbers": (
        {"assign": '{"t":["one"]}'},
        ["EOSKAFKA_OPTION_INVALID", "assign is"],
    ),
    "a pattern that is none": (
        {"subscribePattern": "some-[topic"},
        ["EOSKAFKA_OPTION_INVALID", "subscribePattern is 'some-[topic'"],
    ),
    "a topic that does not exist": (
        {"subscribe": "never-made"},
        ["EOSKAFKA_NO_SUCH_TOPIC", "never-made"],
    ),
    "a pattern without topics": (
        {"subscribePattern": "never-made-.*"},
        ["EOSKAFKA_NO_SUCH_TOPIC", "never-made-.*"],
    ),
    "an empty list": ({"subscribe": " , "}, ["EOSKAFKA_"]),
}

REFUSED_ON_SINK: dict[str, tuple[Options, list[str]]] = {
    "misspelt": (
        {"transactionalIdPrefx": "x"},
        ["EOSKAFKA_UNKNOWN_OPTION", "Did you mean transactionalIdPrefix?"],
    ),
    "for another scope": (
        {"commitIntervalMs": "100", "transactionScope": "epoch"},
        ["EOSKAFKA_OPTION_INVALID", "left out with transactionScope=epoch"],
    ),
    "the topic of the decisions": (
        {"topic": "__eoskafka_decisions"},
        ["EOSKAFKA_OPTION_INVALID", "topic is '__eoskafka_decisions'", "another topic than the"],
    ),
    "the topic that is given for decisions": (
        {"topic": "ours", "decisionTopic": "ours"},
        ["EOSKAFKA_OPTION_INVALID", "topic is 'ours'", "another topic than the one of the decisi"],
    ),
    "never allowed": (
        {"kafka.acks": "1"},
        ["EOSKAFKA_OPTION_INVALID", "kafka.acks is '1'", "all or -1"],
    ),
    "the source's": (
        {"startingOffsets": "latest"},
        ["EOSKAFKA_OPTION_WRONG_SIDE", "to the source"],
    ),
    "no servers": (
        {"kafka.bootstrap.servers": ""},
        ["EOSKAFKA_OPTION_MISSING", "The sink needs the option kafka.bootstrap.servers"],
    ),
    "another scope": (
        {"transactionScope": "batch"},
        ["EOSKAFKA_OPTION_INVALID", "transactionScope is 'batch'", "auto, task or epoch"],
    ),
    "an empty prefix": ({"transactionalIdPrefix": " "}, ["EOSKAFKA_OPTION_INVALID", "not empty"]),
    "a timeout that is no number": (
        {"kafka.transaction.timeout.ms": "5m"},
        ["EOSKAFKA_OPTION_INVALID", "kafka.transaction.timeout.ms is '5m'"],
    ),
}


@pytest.mark.parametrize("name", REFUSED_ON_SOURCE)
def test_the_source_refuses(streams: Streams, name: str) -> None:
    options, wanted = REFUSED_ON_SOURCE[name]
    error = refusal(streams, source=options)
    assert [text for text in wanted if text not in error] == [], error


@pytest.mark.parametrize("name", REFUSED_ON_SINK)
def test_the_sink_refuses(streams: Streams, name: str) -> None:
    options, wanted = REFUSED_ON_SINK[name]
    error = refusal(streams, source={"subscribe": streams.topic(records=1)}, sink=options)
    assert [text for text in wanted if text not in error] == [], error


def test_a_transaction_timeout_above_the_brokers_limit_is_explained(streams: Streams) -> None:
    error = refusal(
        streams,
        source={"subscribe": streams.topic(records=1)},
        sink={"kafka.transaction.timeout.ms": 3_600_000},
    )
    assert "EOSKAFKA_TRANSACTION_TIMEOUT_TOO_LONG" in error
    assert "(transaction.max.timeout.ms) is lower" in error


@pytest.mark.parametrize("side", ["source", "sink"])
def test_an_unreachable_broker_is_an_error_in_bounded_time(streams: Streams, side: str) -> None:
    # The client's own bound is a minute.
    unreachable: Options = {
        "kafka.bootstrap.servers": "127.0.0.1:1",
        "kafka.default.api.timeout.ms": 3_000,
        "kafka.request.timeout.ms": 1_000,
    }
    reachable: Options = {"subscribe": streams.topic(records=1)}
    start = time.monotonic()
    if side == "source":
        error = refusal(streams, source={**reachable, **unreachable})
    else:
        error = refusal(streams, source=reachable, sink=unreachable)
    assert time.monotonic() - start < 20
    assert "EOSKAFKA_UNREACHABLE" in error
    assert "127.0.0.1:1" in error


# ---- what whoever runs Spark disallows

DISALLOWED = "spark.sql.kafka.disallowedOptions"
# The second one where eoskafka was not asked to translate errors.
REFUSED = (PySparkException, Py4JError)


@pytest.fixture
def application_disallows(streams: Streams) -> Iterator[None]:
    """The application was started with a list, and its session has tried to empty it."""
    conf = streams.spark._jvm.org.apache.spark.SparkEnv.get().conf()  # type: ignore[union-attr]
    conf.set(DISALLOWED, "sasl.jaas.config, Client.Rack")
    # Since Spark 4.3 a session cannot even try.
    with suppress(PySparkException):
        streams.spark.conf.set(DISALLOWED, "")
    yield
    conf.remove(DISALLOWED)
    with suppress(PySparkException):
        streams.spark.conf.unset(DISALLOWED)


def test_settings_of_kafkas_client_that_spark_disallows_are_refused(
    streams: Streams, application_disallows: None
) -> None:
    topic, output = streams.topic(records=4), streams.topic()
    for error in (
        refusal(streams, {"subscribe": topic, "kafka.client.rack": "a"}),
        refusal(streams, {"subscribe": topic}, {"KAFKA.sasl.jaas.config": "x"}),
    ):
        assert "[EOSKAFKA_OPTION_DISALLOWED]" in error
        assert DISALLOWED in error
    with pytest.raises(REFUSED, match=r"kafka\.client\.rack is not allowed"):
        streams.batch(topic, {"kafka.client.rack": "a"}).count()
    rows = streams.spark.range(2).selectExpr("cast(id as string) value")
    with pytest.raises(REFUSED, match=r"kafka\.client\.rack is not allowed"):
        streams.save(rows, output, {"kafka.client.rack": "a"})
    assert streams.values(output) == []
    streams.run(streams.sink(kv(streams.source(topic, {"kafka.client.id": "x"})), output))
    assert streams.numbers(output) == [0, 1, 2, 3]


# ---- where to start, and in which partitions


@pytest.mark.parametrize(
    ("json_of", "wanted"),
    [
        ({"0": 0}, ["EOSKAFKA_OFFSETS_OF_OTHER_PARTITIONS", "Missing: {topic}-1. Unknown: none."]),
        (
            {"0": 0, "1": 0, "2": 0},
            ["EOSKAFKA_OFFSETS_OF_OTHER_PARTITIONS", "Unknown: {topic}-2."],
        ),
        ({"0": 0, "1": -3}, ["EOSKAFKA_BAD_OFFSET_JSON"]),
        ({"0": 0, "1": "5"}, ["EOSKAFKA_BAD_OFFSET_JSON"]),
        ({"0": 0, "1": 1.5}, ["EOSKAFKA_BAD_OFFSET_JSON"]),
        ({"0": 0, "one": 5}, ["EOSKAFKA_BAD_OFFSET_JSON"]),
        (7, ["EOSKAFKA_BAD_OFFSET_JSON"]),
    ],
    ids=["missing", "unknown", "negative", "text", "fraction", "no partition", "no object"],
)
def test_starting_offsets_are_checked(streams: Streams, json_of: object, wanted: list[str]) -> None:
    topic = streams.topic(records=4)
    error = refusal(
        streams, source={"subscribe": topic, "startingOffsets": json.dumps({topic: json_of})}
    )
    assert [text for text in wanted if text.format(topic=topic) not in error] == [], error


def test_starting_offsets_that_are_no_json_are_refused(streams: Streams) -> None:
    topic = streams.topic()
    error = refusal(streams, source={"subscribe": topic, "startingOffsets": "the beginning"})
    assert "EOSKAFKA_BAD_OFFSET_JSON" in error
    assert "the beginning" in error


def test_an_assigned_partition_that_does_not_exist_is_refused(streams: Streams) -> None:
    topic = streams.topic()
    error = refusal(streams, source={"assign": json.dumps({topic: [0, 5]})})
    assert "EOSKAFKA_NO_SUCH_TOPIC" in error
    assert f"{topic}-5" in error


# ---- what is written


def test_a_null_topic_fails_and_leaves_nothing(streams: Streams) -> None:
    source, output, checkpoint = streams.topic(records=6), streams.topic(), streams.checkpoint()
    rows = streams.source(source).selectExpr(
        "value", f"case when value = cast('3' as binary) then null else '{output}' end topic"
    )
    error = streams.failure(streams.sink(rows.coalesce(1), None, checkpoint))
    assert "[EOSKAFKA_NULL_TOPIC]" in error
    assert streams.numbers(output) == []


@pytest.mark.parametrize("scope", ["task", "epoch"])
def test_a_row_for_the_decision_topic_fails_and_leaves_nothing(
    streams: Streams, scope: str
) -> None:
    source, output = streams.topic(records=6), streams.topic()
    decisions = f"{output}-decisions"
    rows = streams.source(source).selectExpr(
        "value",
        f"if(value = cast('3' as binary), '{decisions}', '{output}') as topic",
    )
    options = {"transactionScope": scope, "decisionTopic": decisions}
    error = streams.failure(streams.sink(rows.coalesce(1), None, options=options))
    assert f"[EOSKAFKA_ROW_FOR_DECISIONS] A row has the topic {decisions}" in error
    assert streams.numbers(output) == []


def test_a_partition_that_does_not_exist_fails_in_bounded_time(streams: Streams) -> None:
    source, output = streams.topic(records=2), streams.topic()
    rows = streams.source(source).selectExpr("value", "9 as partition")
    error = streams.failure(streams.sink(rows, output, options={"kafka.max.block.ms": 2_000}))
    assert "[EOSKAFKA_WRITE_FAILED]" in error
    assert streams.values(output) == []


def test_a_topic_that_does_not_exist_fails_in_bounded_time(streams: Streams) -> None:
    # Each row would wait for max.block.ms: 60 of them for longer than this test may take.
    source = streams.topic(records=60)
    rows = streams.source(source, {"slots": 1}).select("value")
    missing = f"{source}-missing"
    error = streams.failure(streams.sink(rows, missing, options={"kafka.max.block.ms": 2_000}))
    assert "[EOSKAFKA_NO_SUCH_TOPIC]" in error
    assert missing in error


BAD_ROWS = {
    "no value": ("key", "it has no column 'value'"),
    "a number as value": ("partition as value", "column 'value' must be string or binary"),
    "a number as key": ("offset as key, value", "column 'key' must be string or binary"),
    "a long as partition": ("value, offset as partition", "column 'partition' must be int"),
    "a binary as topic": ("value, key as topic", "column 'topic' must be string"),
    "headers of text": (
        "value, array(struct('a' as key, 'b' as value)) as headers",
        "column 'headers' must be array<struct<key:string,value:binary>>",
    ),
}


@pytest.mark.parametrize("name", BAD_ROWS)
def test_rows_that_cannot_be_written_are_refused(streams: Streams, name: str) -> None:
    expressions, reason = BAD_ROWS[name]
    view = f"v{streams.group()}"
    streams.source(streams.topic(records=1)).createOrReplaceTempView(view)
    error = refusal(streams, rows=streams.spark.sql(f"select {expressions} from {view}"))
    assert "[EOSKAFKA_BAD_SCHEMA]" in error
    assert reason in error


def test_rows_without_any_topic_are_refused(streams: Streams) -> None:
    rows = kv(streams.source(streams.topic(records=1)))
    error = streams.failure(streams.sink(rows, None))
    assert "[EOSKAFKA_BAD_SCHEMA]" in error
    assert "no option 'topic' is set" in error


# ---- settings of the Kafka client


def test_a_class_that_is_not_there_is_named(streams: Streams) -> None:
    error = refusal(
        streams,
        source={"subscribe": streams.topic(records=1)},
        sink={"kafka.partitioner.class": "org.example.NoSuchPartitioner"},
    )
    assert "org.example.NoSuchPartitioner" in error


def test_without_a_group_one_is_made_of_the_checkpoint(streams: Streams) -> None:
    topic, checkpoint = streams.topic(records=2), streams.checkpoint()
    streams.copy(topic, streams.topic(), checkpoint)
    identity = json.loads((checkpoint / "sources" / "0" / "eoskafka-identity.json").read_text())
    assert identity["group"].startswith("eoskafka-")
    assert streams.offsets(identity["group"], topic) == {0: 1, 1: 1}


# ---- secrets

SECRETS = {
    "kafka.sasl.jaas.config": (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="u" password="{SECRET}";'
    ),
    "kafka.ssl.key.password": SECRET,
    "kafka.ssl.keystore.password": SECRET,
    "kafka.ssl.truststore.password": SECRET,
    "kafka.sasl.oauthbearer.client.credentials.client.secret": SECRET,
    "kafka.sasl.oauthbearer.assertion.private.key.passphrase": SECRET,
    "kafka.ssl.keystore.key": f"-----BEGIN PRIVATE KEY----- {SECRET} -----END PRIVATE KEY-----",
}


def files_with_secret(folder: Path) -> list[Path]:
    """The files that hold it."""
    return [p for p in folder.rglob("*") if p.is_file() and SECRET.encode() in p.read_bytes()]


def test_invariant_11_secrets_of_a_running_query_are_shown_nowhere(
    streams: Streams, spark_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic, output, group = streams.topic(records=4), streams.topic(), streams.group()
    checkpoint = streams.checkpoint()
    source = streams.source(topic, {**SECRETS, "kafka.group.id": group})
    query = streams.start(
        streams.sink(kv(source), output, checkpoint, SECRETS).trigger(
            processingTime="100 milliseconds"
        )
    )
    until(lambda: query.recentProgress, "a batch", QUERY_S)
    source.explain(extended=True)
    query.explain(extended=True)
    shown = capsys.readouterr().out
    assert "Parsed Logical Plan" in shown
    progress = " ".join(batch.json for batch in query.recentProgress)
    stamps = " ".join(o.metadata for o in streams.committed(group, topic).values())
    query.stop()
    for text in (shown, progress, stamps, str(query.status), repr(query.lastProgress)):
        assert SECRET not in text
    assert files_with_secret(checkpoint) == []
    log = spark_folder / "spark.log"
    # The log is there, at a level at which Kafka's clients print their settings.
    assert "ProducerConfig values" in log.read_text(encoding="utf-8")
    assert files_with_secret(spark_folder) == []


def test_invariant_11_secrets_of_a_failing_query_are_shown_nowhere(
    streams: Streams, spark_folder: Path
) -> None:
    topic = streams.topic(records=4)

    secret_source = {"subscribe": topic, **SECRETS}
    errors = [
        # In a task, in the planner, in the analyzer, and while connecting.
        refusal(streams, secret_source, {"topic": "not a topic!", **SECRETS}),
        refusal(
            streams,
            secret_source,
            {"transactionScope": "task", **SECRETS},
            kv(streams.source(topic, SECRETS)).distinct(),
        ),
        refusal(streams, secret_source, {"tpoic": "x", **SECRETS}),
        refusal(streams, secret_source, SECRETS, streams.source(topic, SECRETS).orderBy("key")),
        refusal(
            streams,
            {
                **secret_source,
                "kafka.security.protocol": "SASL_PLAINTEXT",
                "kafka.sasl.mechanism": "PLAIN",
                "kafka.default.api.timeout.ms": 3_000,
                "kafka.request.timeout.ms": 1_000,
            },
        ),
    ]
    assert [error for error in errors if SECRET in error] == []
    assert files_with_secret(spark_folder) == []
