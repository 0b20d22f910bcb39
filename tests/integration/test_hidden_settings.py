"""Brokers that do not show their settings: what is safe without them is done, and said."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka.admin import (
    ACL,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ConfigResource,
    ConfigResourceType,
    ResourcePattern,
    ResourceType,
)
from pyspark.sql import SparkSession
from pyspark.sql.streaming import DataStreamWriter
from streams import USER, Options, Streams, command, kv

CLUSTER = ResourcePattern(ResourceType.CLUSTER, "kafka-cluster", ACLResourcePatternType.LITERAL)
HIDDEN = [
    ACL(USER, "*", ACLOperation.ALL, ACLPermissionType.ALLOW, CLUSTER),
    ACL(USER, "*", ACLOperation.DESCRIBE_CONFIGS, ACLPermissionType.DENY, CLUSTER),
]


@pytest.fixture
def hiding(guarded: Streams) -> Iterator[Streams]:
    """Queries whose user may not see the settings of the brokers."""
    guarded.admin.create_acls(HIDDEN)
    yield guarded
    guarded.admin.delete_acls(HIDDEN)


def in_epochs(streams: Streams, output: str, options: Options) -> DataStreamWriter:
    rows = kv(streams.source(streams.topic(records=4)))
    given = {"transactionScope": "epoch", "decisionTopic": f"{output}-decisions", **options}
    return streams.sink(rows, output, options=given)


@pytest.mark.slow
def test_epochs_run_without_the_brokers_settings_and_the_log_names_them(
    hiding: Streams, shared_spark: SparkSession, spark_folder: Path
) -> None:
    output = hiding.topic()
    before = (spark_folder / "spark.log").stat().st_size
    hiding.run(in_epochs(hiding, output, {}))
    assert hiding.numbers(output) == [0, 1, 2, 3]
    with (spark_folder / "spark.log").open("rb") as log:
        log.seek(before)
        said = log.read().decode()
    for setting in (
        "transaction.max.timeout.ms (transactions ask for",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms (60000 ms are kept",
        "transaction.state.log.replication.factor (the decision topic needs 1)",
        "transaction.state.log.min.isr (the decision topic needs 1)",
    ):
        assert setting in said
    resource = ConfigResource(ConfigResourceType.TOPIC, f"{output}-decisions")
    found = hiding.admin.describe_configs([resource], config_filter="all")
    assert found["topic"][f"{output}-decisions"]["cleanup.policy"]["value"] == "compact"


@pytest.mark.parametrize(
    ("timeout", "wanted"),
    [
        # The brokers themselves refuse it when a writer's producer is initialised.
        pytest.param(3_600_000, "[EOSKAFKA_TRANSACTION_TIMEOUT_TOO_LONG]", id="too long"),
        # Enough for the second after which these brokers look for timeouts, which they do not show.
        pytest.param(120_000, "it must be at least 240000", id="too short"),
    ],
)
def test_a_timeout_that_does_not_fit_is_refused_though_no_limit_is_shown(
    hiding: Streams, timeout: int, wanted: str
) -> None:
    output = hiding.topic()
    error = hiding.failure(in_epochs(hiding, output, {"kafka.transaction.timeout.ms": timeout}))
    assert wanted in error
    assert hiding.numbers(output) == []


def test_verify_does_not_judge_a_topic_that_may_be_compacted(
    guarded: Streams, capsys: pytest.CaptureFixture[str]
) -> None:
    topic, output = guarded.topic(records=2), guarded.topic(records=2)
    on = ResourcePattern(ResourceType.TOPIC, output, ACLResourcePatternType.LITERAL)
    acls = [
        ACL(USER, "*", ACLOperation.ALL, ACLPermissionType.ALLOW, on),
        ACL(USER, "*", ACLOperation.DESCRIBE_CONFIGS, ACLPermissionType.DENY, on),
    ]
    arguments = ("verify", "--bootstrap-servers", guarded.servers, "--by", "value")
    guarded.admin.create_acls(acls)
    code, _, said = command(capsys, *arguments, "--input", topic, "--output", output)
    assert (code, "grant DescribeConfigs on it" in said) == (3, True), said
    guarded.admin.delete_acls(acls)
    assert command(capsys, *arguments, "--input", topic, "--output", output)[0] == 0
