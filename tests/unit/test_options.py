from __future__ import annotations

import dataclasses
import json
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from eoskafka import ConfigurationError, Sink, Source
from eoskafka.options import check
from eoskafka.options.names import option_name

ROOT = Path(__file__).parents[2]
VECTORS = json.loads(Path(__file__).with_name("option_vectors.json").read_text(encoding="utf-8"))
TABLE = json.loads(
    (ROOT / "python" / "eoskafka" / "spec" / "options.json").read_text(encoding="utf-8")
)["options"]
SERVERS = {"kafka.bootstrap.servers": "broker:9092"}
KINDS = {
    *("text", "topics", "partitions", "offsets", "timestamps", "boolean", "duration"),
    *("positive", "positiveInt", "notNegative"),
}


@pytest.mark.parametrize("vector", VECTORS["vectors"], ids=lambda v: json.dumps(v["options"]))
def test_python_says_of_options_what_the_connector_says(vector: dict[str, Any]) -> None:
    try:
        check(vector["side"], {**SERVERS, **vector["options"]})
        said = None
    except ConfigurationError as error:
        said = str(error)
    assert said == vector["message"]


@pytest.mark.parametrize("option", TABLE, ids=lambda option: option["name"])
def test_each_available_option_has_a_kind_or_choices(option: dict[str, Any]) -> None:
    takes = option.get("takes")
    assert (takes is not None) == (option["status"] == "available")
    assert takes is None or isinstance(takes, list) or takes in KINDS


@pytest.mark.parametrize(("side", "of"), [("source", Source), ("sink", Sink)])
def test_there_is_a_field_for_each_available_option(side: str, of: type) -> None:
    available = {o["name"] for o in TABLE if side in o["sides"] and o["status"] == "available"}
    fields = {option_name(f.name) for f in dataclasses.fields(of) if f.name != "kafka"}
    # On a sink the first means nothing, since the column does; the others are given in kafka=.
    without = {
        "includeHeaders",
        "kafka.acks",
        "kafka.enable.idempotence",
        "kafka.retries",
        "kafka.max.in.flight.requests.per.connection",
    }
    assert fields == available - (without if side == "sink" else set())


def test_values_are_written_as_spark_has_them() -> None:
    noon = datetime(2026, 11, 22, 12, tzinfo=timezone.utc)
    source = Source(
        bootstrap_servers="broker:9092",
        subscribe=["a", "b"],
        starting_offsets={"a": "earliest", "b": {0: 23, 1: -1}},
        starting_offsets_by_timestamp={"a": {0: noon}, "b": {0: 5, 1: 6}},
        starting_timestamp=noon,
        max_trigger_delay=timedelta(minutes=2),
        min_offsets_per_trigger=10,
        include_headers=True,
        fail_on_data_loss=False,
        group_id="g",
        kafka={"security.protocol": "SASL_SSL", "fetch.max.bytes": 1000},
    )
    assert source.options() == {
        "kafka.bootstrap.servers": "broker:9092",
        "subscribe": "a,b",
        "startingOffsets": '{"a":"earliest","b":{"0":23,"1":-1}}',
        "startingOffsetsByTimestamp": '{"a":{"0":1795348800000},"b":{"0":5,"1":6}}',
        "startingTimestamp": "1795348800000",
        "minOffsetsPerTrigger": "10",
        "maxTriggerDelay": "120000ms",
        "includeHeaders": "true",
        "failOnDataLoss": "false",
        "kafka.group.id": "g",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.fetch.max.bytes": "1000",
    }
    assigned = Source(bootstrap_servers="b:1", assign={"t": (0, 2)})
    assert assigned.options()["assign"] == '{"t":[0,2]}'
    sink = Sink(bootstrap_servers="b:1", topic="t", register_topics=["t", "u"])
    assert sink.options() == {
        "kafka.bootstrap.servers": "b:1",
        "topic": "t",
        "registerTopics": "t,u",
    }


def test_what_is_not_given_is_left_to_the_connector() -> None:
    assert Sink(bootstrap_servers="b:1").options() == {"kafka.bootstrap.servers": "b:1"}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"subscribe": "t", "slots": 0}, "Option slots is '0'"),
        ({}, "subscribe, subscribePattern or assign"),
        ({"subscribe": "t", "kafka": {"kafka.acks": "1"}}, "'acks', not 'kafka.acks'"),
        ({"subscribe": "t", "kafka": {"group.id": "g"}}, "group.id is given as group_id="),
        ({"subscribe": "t", "kafka": {"enable.auto.commit": True}}, "EOSKAFKA_OPTION_REFUSED"),
        ({"subscribe": "t", "kafka": {"sasl.jaas.config": None}}, "sasl.jaas.config is None"),
        ({"subscribe": []}, "subscribe names no topic"),
        ({"assign": {}}, "assign names no topic"),
        ({"subscribe": "t", "starting_timestamp": datetime(2026, 1, 1)}, "has no time zone"),
    ],
)
def test_a_source_that_cannot_be_is_refused_at_once(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        Source(bootstrap_servers="broker:9092", **given)
    assert says in str(refused.value)


def test_invariant_11_settings_of_the_client_are_not_shown() -> None:
    secret = {"sasl.jaas.config": "password=hunter2"}
    for side in (
        Source(bootstrap_servers="b:1", subscribe="t", kafka=secret),
        Sink(bootstrap_servers="b:1", kafka=secret),
    ):
        assert "hunter2" not in f"{side!r} {side}"
        assert side.options()["kafka.sasl.jaas.config"] == "password=hunter2"
