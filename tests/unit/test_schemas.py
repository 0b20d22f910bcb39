"""What the driver asks a schema registry, and what it makes of the schemas: without Spark."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from typing import Any

import fastavro
import pytest
from eoskafka import AuthorizationError, ConfigurationError, UnreachableError
from eoskafka.schemas import Registry, encode
from eoskafka.schemas.frame import prefix_of
from eoskafka.schemas.jar import LIMITS, has_jar, package_for, with_limits, without_limits
from eoskafka.schemas.registry import Requests, requests_of
from eoskafka.schemas.resolution import around, difference, skips, widened, without_defaults
from eoskafka.schemas.types import UnsupportedError, hash_of, parse, spark_type, text_of
from fuzz.registered import doubled
from harness.registry import Answer, RegistryServer

ORDER = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
LATER = {
    **ORDER,
    "fields": [*ORDER["fields"], {"name": "note", "type": "string", "default": ""}],
}
# Confluent's client waits a second before it asks again.
QUICK = {"retries.wait.ms": 1, "retries.max.wait.ms": 2}


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with RegistryServer().running() as server:
        yield server


@pytest.fixture
def asked(server: RegistryServer) -> Iterator[Requests]:
    with requests_of(Registry(server.url, settings=QUICK)) as asked:
        yield asked


def test_a_subject_has_its_versions_also_deleted_ones(
    server: RegistryServer, asked: Requests
) -> None:
    first, second = server.add("orders", ORDER), server.add("orders", LATER)
    server.add("others", {"type": "string"})
    server.delete("orders", 1)
    assert [each.id for each in asked.all_of("orders")] == [first, second]
    assert asked.version("orders", 1).id == first
    assert asked.version("orders", "latest").id == second
    assert asked.version("orders", 1).type == parse(json.dumps(ORDER))


def test_an_id_that_two_versions_have_is_there_once(
    server: RegistryServer, asked: Requests
) -> None:
    first = server.add("orders", ORDER)
    server.add("orders", LATER)
    server.delete("orders", 1)
    assert server.add("orders", ORDER) == first
    assert sorted(each.id for each in asked.all_of("orders")) == [first, first + 1]


def test_nothing_that_was_answered_is_kept_for_the_next_column(server: RegistryServer) -> None:
    registry = Registry(server.url)
    server.add("orders", ORDER)
    for _ in range(2):
        with requests_of(registry) as asked:
            assert asked.version("orders", 1).type is not None
    assert len(server.requests) == 2
    # The subject was deleted for good and registered again, now with rules.
    server.forget("orders")
    server.add("orders", ORDER, ruleSet=RULES)
    with requests_of(registry) as asked:
        assert "rules" in asked.version("orders", 1).refusal


def test_a_deleted_version_is_not_the_latest_one(server: RegistryServer, asked: Requests) -> None:
    first, _ = server.add("orders", ORDER), server.add("orders", LATER)
    server.delete("orders", 2)
    assert asked.version("orders", "latest").id == first


@pytest.mark.parametrize("version", [0, -1, True, 1.0, "1", "Latest", "", None])
def test_a_version_is_an_integer_from_1_or_the_latest(asked: Requests, version: Any) -> None:
    with pytest.raises(ConfigurationError, match="must be an integer from 1, or 'latest'"):
        asked.version("orders", version)


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda r: r.all_of("nothing"), "does not have the subject nothing: .*40401"),
        (lambda r: r.version("orders", 9), "does not have version 9 of .* orders: .*40402"),
        (lambda r: r.find("orders", json.dumps(LATER)), "does not have this schema"),
        (lambda r: r.register("orders", "{"), "refuses this schema .*42201"),
    ],
)
def test_what_the_registry_does_not_have_is_said(
    server: RegistryServer, asked: Requests, ask: Any, said: str
) -> None:
    server.add("orders", ORDER)
    with pytest.raises(ConfigurationError, match=said):
        ask(asked)


def test_nothing_is_registered_unless_it_is_asked_for(
    server: RegistryServer, asked: Requests
) -> None:
    text = json.dumps(ORDER)
    with pytest.raises(ConfigurationError, match="Subject 'orders' not found"):
        asked.find("orders", text)
    assert server.count("orders") == 0
    registered = asked.register("orders", text)
    assert asked.find("orders", text).id == registered.id
    assert asked.register("orders", text).id == registered.id
    assert server.count("orders") == 1


def test_a_registry_wants_a_user_and_no_password_is_shown(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    with RegistryServer(user="me:pass-1").running() as server:
        server.add("orders", ORDER)
        right = Registry(server.url, auth=("me", "pass-1"))
        with requests_of(right) as asked:
            assert asked.version("orders", 1).type is not None
        wrong = Registry(server.url, auth=("me", "pass-2"))
        with (
            requests_of(wrong) as asked,
            pytest.raises(AuthorizationError, match="does not let this user ask") as error,
        ):
            asked.version("orders", 1)
        assert server.requests
    assert "pass-" not in f"{right!r} {wrong!r} {error.value} {caplog.text}"


@pytest.mark.parametrize(
    "url",
    [
        "http://me:pass-1@localhost:8081",
        "http://a:8081,https://me:pass-1@b",
        "me:pass-1@localhost",
        "http://localhost:8081/?token=pass-1",
    ],
)
def test_a_secret_in_the_url_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(ConfigurationError, match="Give user and password with `auth`") as error:
        Registry(url)
    assert "pass-1" not in str(error.value)


def test_a_secret_that_the_registry_or_the_client_repeats_is_not_shown(
    server: RegistryServer,
) -> None:
    secrets = {"bearer.auth.token": "pass-1", "bearer.auth.credentials.source": "pass-1"}
    with pytest.raises(ConfigurationError, match="refuses its settings") as error:
        Registry(server.url, settings=secrets)
    assert "pass-1" not in str(error.value)
    registry = Registry(server.url, auth=("me", "on purpose"), settings=QUICK)
    server.faults += [Answer(409)]
    with (
        requests_of(registry) as asked,
        pytest.raises(ConfigurationError, match=r"refuses .*\*\*\*") as error,
    ):
        asked.version("orders", 1)
    assert error.value.__cause__ is None
    assert "on purpose" not in str(error.value)


@pytest.mark.parametrize("name", ["url", "timeout"])
def test_a_setting_that_is_an_argument_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="use the arguments `url` and `timeout_s`"):
        Registry("http://localhost", settings={name: "http://me:pass@localhost"})


def test_a_registry_that_fails_for_a_moment_is_asked_again(
    server: RegistryServer, asked: Requests
) -> None:
    server.add("orders", ORDER)
    server.faults += [Answer(500), Answer(0), Answer(503)]
    assert asked.version("orders", 1).type is not None
    assert server.requests == ["GET /subjects/orders/versions/1?deleted=true"] * 4


@pytest.mark.parametrize("answer", [Answer(500), Answer(0), Answer(429)])
def test_a_registry_that_does_not_answer_is_unreachable(
    server: RegistryServer, asked: Requests, answer: Answer
) -> None:
    server.faults += [answer] * 4
    with pytest.raises(UnreachableError, match=r"Nothing was read or written"):
        asked.version("orders", 1)


@pytest.mark.parametrize(
    "answer",
    [
        [],
        {"subject": "orders", "version": "1", "id": 1, "schema": '"int"'},
        {"subject": "orders", "version": 1, "id": None, "schema": '"int"'},
        {"subject": "orders", "version": 1, "id": 1, "schema": '"int"', "ruleSet": 7},
        {"subject": "orders", "version": 1, "id": 1, "schema": '"int"', "references": [7]},
    ],
)
def test_an_answer_that_is_no_version_is_an_error_of_the_registry(
    server: RegistryServer,
    asked: Requests,
    monkeypatch: pytest.MonkeyPatch,
    answer: Any,
) -> None:
    monkeypatch.setattr(server, "answer", lambda *_: answer)
    with pytest.raises(UnreachableError, match="gave no answer about version 1"):
        asked.version("orders", 1)


@pytest.mark.parametrize("schema", [7, None])
def test_a_schema_that_is_no_text_is_not_supported(
    server: RegistryServer, asked: Requests, monkeypatch: pytest.MonkeyPatch, schema: Any
) -> None:
    answer = {"subject": "orders", "version": 1, "id": 1, "schema": schema}
    monkeypatch.setattr(server, "answer", lambda *_: answer)
    with pytest.raises(ConfigurationError, match="it has no text"):
        asked.version("orders", 1).supported()


def test_a_slow_registry_is_waited_for_as_long_as_it_was_said(server: RegistryServer) -> None:
    server.add("orders", ORDER)
    server.faults += [Answer(200, after_s=1.0)]
    slow = Registry(server.url, timeout_s=0.1, settings={**QUICK, "max.retries": 0})
    with requests_of(slow) as asked, pytest.raises(UnreachableError, match="Timeout"):
        asked.version("orders", 1)


def test_settings_that_the_client_refuses_are_said() -> None:
    with pytest.raises(ConfigurationError, match="refuses its settings: Unrecognized properties"):
        Registry("http://localhost", settings={"no.such": 1})


RULE = {"name": "r", "kind": "TRANSFORM", "mode": "WRITE", "type": "ENCRYPT"}
RULES = {"domainRules": [RULE]}


@pytest.mark.parametrize("kind", ["domainRules", "migrationRules", "encodingRules"])
def test_a_schema_with_rules_is_refused(server: RegistryServer, asked: Requests, kind: str) -> None:
    server.add("ruled", ORDER, ruleSet={kind: [RULE]})
    with pytest.raises(ConfigurationError, match="has rules, such as those that encrypt"):
        asked.version("ruled", 1).supported()


def test_rules_and_references_of_the_registry_are_seen_if_a_text_is_looked_up(
    server: RegistryServer, asked: Requests
) -> None:
    server.add("ruled", ORDER, ruleSet=RULES)
    to = [{"name": "B", "subject": "ruled", "version": 1}]
    server.add("referring", ORDER, references=to)
    text = json.dumps(ORDER)
    for subject, said in (("ruled", "has rules"), ("referring", "refers to other schemas")):
        for ask in (asked.find, asked.register):
            with pytest.raises(ConfigurationError, match=said):
                ask(subject, text).supported()


def test_an_error_after_a_schema_was_registered_says_that_it_was(
    server: RegistryServer, asked: Requests
) -> None:
    server.faults += [Answer(200), Answer(404)]
    with pytest.raises(ConfigurationError, match="the schema was registered just before") as error:
        asked.register("orders", json.dumps(ORDER))
    assert "register it first" not in str(error.value)
    assert server.count("orders") == 1


@pytest.mark.parametrize("form", ["PROTOBUF", "JSON"])
def test_a_schema_of_another_format_is_refused(
    server: RegistryServer, asked: Requests, form: str
) -> None:
    server.add("others", "{}", form)
    with pytest.raises(ConfigurationError, match=f"is of the format {form}"):
        asked.version("others", 1).supported()


def test_a_schema_that_refers_to_others_is_refused_by_their_names(
    server: RegistryServer, asked: Requests
) -> None:
    server.add("orders", ORDER)
    basket = record({"type": "array", "items": "Order"})
    to = [{"name": "Order", "subject": "orders", "version": 1}]
    server.add("baskets", basket, references=to)
    with pytest.raises(ConfigurationError, match=r"refers to other schemas \(Order\)"):
        asked.version("baskets", 1).supported()


# ---- schemas


def record(kind: Any, name: str = "R", **more: Any) -> dict[str, Any]:
    """A record with a field `a` of this type."""
    return {"type": "record", "name": name, "fields": [{"name": "a", "type": kind, **more}]}


def decimal(precision: int, scale: int, kind: Any = "bytes", **more: Any) -> dict[str, Any]:
    return {
        "type": kind,
        "logicalType": "decimal",
        "precision": precision,
        "scale": scale,
        **more,
    }


def logical(kind: str, name: str) -> dict[str, str]:
    return {"type": kind, "logicalType": name}


def nested(levels: int) -> Any:
    """So many levels below a record."""
    kind: Any = "int"
    for _ in range(levels - 1):
        kind = {"type": "array", "items": kind}
    return record(kind)


AGAIN = record("R")
TWICE = [
    {"name": "a", "type": {"type": "fixed", "name": "F", "size": 1}},
    {"name": "b", "type": {"type": "fixed", "name": "F", "size": 2}},
]


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("bytes", "its top level is of the type bytes"),
        (decimal(9, 2), "its top level is of the type bytes"),
        ("null", "its top level is of the type null"),
        (["null", "string"], "its top level is of the type nullable"),
        ({"type": "array", "items": "int"}, "its top level is of the type array"),
        ({"type": "fixed", "name": "F", "size": 2}, "its top level is of the type fixed"),
        (AGAIN, "the field a is recursive: it is inside of R itself"),
        (record(["null", {"type": "array", "items": "R"}]), r"the field a\[\] is recursive"),
        (record("Other"), "the field a is of the type Other, which the schema itself does not"),
        # Avro's Java library would find it without the namespace, and others would not.
        (
            {
                **record("int"),
                "fields": [
                    {"name": "a", "type": record("int", "Plain")},
                    {"name": "b", "type": record("Plain", "space.Inner")},
                ],
            },
            "is of the type space.Plain, which the schema itself does not",
        ),
        (record(["int", "string"]), "the field a is a union"),
        (record(["null", "int", "string"]), "the field a is a union"),
        (record(["int"]), "the field a is a union"),
        (record("null"), "the field a is of the type null"),
        (record(logical("int", "time-millis")), "the logical type time-millis"),
        (record(logical("long", "date")), "the logical type date"),
        (record(logical("string", "decimal")), "the logical type decimal"),
        (record({"type": "map", "values": logical("long", "x")}), r"the field a\{\} is of"),
        (record({"type": "array", "items": "int", "logicalType": "x"}), "the logical type x"),
        (record(decimal(39, 2)), "precision must be from 1 to 38"),
        (record(decimal(3, 4)), "the precision 3 and the scale 4"),
        (record(decimal(5, 0, "fixed", name="F", size=2)), "precision must be from 1 to 4"),
        (record({"type": "fixed", "name": "F", "size": 0}), "the type F has the size 0"),
        ({"type": "record", "name": "R", "fields": []}, "the record R has no fields"),
        ({**record("int"), "aliases": ["Q"]}, "the type R has aliases"),
        (record("int", aliases=["b"]), "the field a of the record R has aliases"),
        (
            {**ORDER, "fields": [*ORDER["fields"], {"name": "ID", "type": "int"}]},
            "has two fields ID, up to upper and lower case",
        ),
        ({"type": "record", "name": "R", "fields": TWICE}, "defines the name F a second time"),
        (record({"type": "enum", "name": "E", "symbols": []}), "symbols that Avro does not"),
        (record({"type": {"type": "long"}}), "the field a has no type that is a name"),
        (record("int", "9"), "has the name '9', which Avro does not allow"),
        (record({"type": "fixed", "name": "F", "size": 10**10}), "one from 1 to 1,048,576 bytes"),
        (
            record(decimal(39, 0, "fixed", name="F", size=2_000)),
            "precision must be from 1 to 38",
        ),
        (record("int", "null"), "has the name 'null', which Avro does not allow"),
        (nested(64), "has more than 10,000 types, or more than 64 within each other"),
        (doubled(14), "has more than 10,000 types, or more than 64 within each other"),
        ("{", "it is no JSON"),
        ('{"type": "double", "a": NaN}', "it is no JSON"),
        ('{"type": "double", "a": 1e999}', "it is no JSON"),
        ('{"type":' * 20_000 + '"int"' + "}" * 20_000, "it is no JSON"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(schema: Any, said: str) -> None:
    is_text = isinstance(schema, str) and schema.startswith("{")
    with pytest.raises(UnsupportedError, match=said):
        parse(schema if is_text else json.dumps(schema))


@pytest.mark.parametrize(
    ("writer", "reader", "said"),
    [
        ("int", "long", None),
        ("int", "double", None),
        ("float", "double", None),
        ("int", "float", "the field a is int in the writer's schema and float"),
        ("long", "double", "the field a is long in the writer's schema and double"),
        ("long", "int", "the field a is long in the writer's schema and int"),
        ("string", "bytes", "the field a is string in the writer's schema and bytes"),
        ("int", ["null", "long"], None),
        (["int", "null"], ["null", "long"], None),
        (["null", "int"], "int", "the field a may be null in the writer's schema"),
        (logical("int", "date"), "int", "is int with the logical type date in the writer's"),
        (logical("int", "date"), "long", "is int with the logical type date in the writer's"),
        ("long", logical("long", "timestamp-millis"), "long with the logical type timestamp-m"),
        (
            logical("long", "timestamp-millis"),
            logical("long", "timestamp-micros"),
            "timestamp-millis in the writer's schema and long with the logical type timestamp-mic",
        ),
        (
            logical("long", "timestamp-micros"),
            logical("long", "local-timestamp-micros"),
            "local-timestamp-micros in the reader's",
        ),
        (decimal(9, 2), decimal(9, 2), None),
        (decimal(9, 2), decimal(9, 3), r"decimal\(9,2\) in .* decimal\(9,3\) in the reader's"),
        (decimal(9, 2), decimal(10, 2), r"decimal\(9,2\) in .* decimal\(10,2\) in the reader's"),
        (decimal(9, 2), "bytes", r"bytes with the logical type decimal\(9,2\) in the writer's"),
        (
            {"type": "map", "values": decimal(9, 2)},
            {"type": "map", "values": decimal(9, 1)},
            r"the field a\{\} is bytes",
        ),
        (
            {"type": "array", "items": record("int", "I")},
            {"type": "array", "items": record("string", "I")},
            r"the field a\[\].a is int in the writer's schema and string",
        ),
        (record("int", "I"), record("int", "J"), "is record I in .* and record J in the reader's"),
        (
            {"type": "fixed", "name": "F", "size": 2},
            {"type": "fixed", "name": "F", "size": 3},
            "of 2 and 3 bytes",
        ),
        (
            {"type": "enum", "name": "E", "symbols": ["A", "B"]},
            {"type": "enum", "name": "E", "symbols": ["B"], "default": "B"},
            "the field a has no symbol A in the reader's schema",
        ),
        (
            {"type": "enum", "name": "E", "symbols": ["B"]},
            {"type": "enum", "name": "E", "symbols": ["A", "B"]},
            None,
        ),
    ],
)
def test_a_difference_that_would_change_values_is_named(
    writer: Any, reader: Any, said: str | None
) -> None:
    found = difference(parse(json.dumps(record(writer))), parse(json.dumps(record(reader))))
    if said is None:
        assert found is None
    else:
        assert found is not None
        assert re.search(said, found), found


def two(name: str, *names: str) -> dict[str, Any]:
    """A record with these fields."""
    return {"type": "record", "name": name, "fields": [{"name": n, "type": "int"} for n in names]}


@pytest.mark.parametrize(
    ("writer", "reader", "are_skipped"),
    [
        (two("I", "a", "b"), two("I", "b", "a", "c"), False),
        (two("I", "a", "b"), two("I", "b"), True),
        (two("I", "a", "b"), ["null", two("I", "b")], True),
        (["null", two("I", "a", "b")], [two("I", "b"), "null"], True),
        (
            {"type": "array", "items": two("I", "a", "b")},
            {"type": "array", "items": two("I", "a")},
            True,
        ),
        (
            {"type": "map", "values": two("I", "a", "b")},
            {"type": "map", "values": two("I", "a")},
            True,
        ),
        ({"type": "map", "values": "int"}, ["null", {"type": "map", "values": "long"}], False),
    ],
)
def test_what_only_the_writer_has_is_found_at_each_depth(
    writer: Any, reader: Any, are_skipped: bool
) -> None:
    both = [parse(json.dumps(record(each))) for each in (writer, reader)]
    assert skips(*both) is are_skipped


INNER = record("int", "I", default=3)


@pytest.mark.parametrize(
    ("kind", "default", "is_right"),
    [
        ("int", 2**31 - 1, True),
        ("int", 2**31, False),
        ("int", True, False),
        ("int", 1.0, False),
        ("long", 2**63, False),
        ("double", 1, True),
        ("double", "1", False),
        ("boolean", False, True),
        ("boolean", 0, False),
        ("string", "x", True),
        ("string", None, False),
        ("bytes", "\u00ff", True),
        ("bytes", "\u0100", False),
        (["null", "int"], None, True),
        (["null", "int"], 1, False),
        (["int", "null"], 1, True),
        (["int", "null"], None, False),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "A", True),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "B", False),
        ({"type": "fixed", "name": "F", "size": 2}, "ab", True),
        ({"type": "fixed", "name": "F", "size": 2}, "a", False),
        ({"type": "array", "items": "int"}, [1], True),
        ({"type": "array", "items": "int"}, [None], False),
        ({"type": "map", "values": "int"}, {"k": 1}, True),
        ({"type": "map", "values": "int"}, {"k": "1"}, False),
        (INNER, {}, True),
        (INNER, {"a": "x"}, False),
        (record("int", "I", default="x"), {}, False),
        (record("int", "I"), {}, False),
        (decimal(2, 0), "\u0063", True),
        (decimal(2, 0), "\u0064", False),
        (decimal(2, 0), "", False),
    ],
)
def test_a_field_that_the_writer_lacks_needs_a_default_of_its_type(
    kind: Any, default: Any, is_right: bool
) -> None:
    fields = [{"name": "b", "type": "int"}, {"name": "a", "type": kind, "default": default}]
    reader = parse(json.dumps({"type": "record", "name": "R", "fields": fields}))
    writer = parse(json.dumps({"type": "record", "name": "R", "fields": fields[:1]}))
    found = difference(writer, reader)
    assert found is None if is_right else "the field a has the default" in str(found)
    no_default = parse(json.dumps(record(kind)))
    other = parse(json.dumps({"type": "record", "name": "R", "fields": fields[:1]}))
    assert "the writer's schema lacks the field a" in str(difference(other, no_default))


NESTED: dict[str, Any] = {
    "type": "record",
    "name": "Outer_x",
    "namespace": "shop.de",
    "doc": "It says nothing.",
    "fields": [
        {"name": "plain", "type": {**ORDER, "namespace": ""}},
        {"name": "own", "type": {**ORDER, "doc": "Of shop.de."}},
        {"name": "again", "type": {"type": "array", "items": "Order"}, "order": "ignore"},
        {"name": "price", "type": ["null", decimal(9, 2)], "default": None},
        {"name": "at", "type": {"type": "map", "values": logical("long", "timestamp-micros")}},
        {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A"]}, "default": "A"},
    ],
}


def test_names_mean_the_same_without_namespaces() -> None:
    found = parse(json.dumps(NESTED))
    assert [found.fields[i].type.name for i in (0, 1)] == ["Order", "shop.de.Order"]
    assert found.fields[2].type.inner() == found.fields[1].type
    text = text_of(found)
    assert "It says nothing" not in text
    parsed: Any = fastavro.parse_schema(json.loads(around(found)))
    outer = parsed["fields"][0]["type"]
    assert outer["name"] == "shop_dde_dOuter__x"
    assert [f["type"]["name"] for f in outer["fields"][:2]] == ["Order", "shop_dde_dOrder"]
    assert outer["fields"][2]["type"]["items"] == "shop_dde_dOrder"


def test_a_writers_schema_is_used_without_its_defaults() -> None:
    bare = without_defaults(parse(json.dumps(record({"type": "array", "items": NESTED}))))
    assert "default" not in text_of(bare)
    assert spark_type(bare) == f"struct<a:array<{spark_type(parse(json.dumps(NESTED)))}>>"


def test_the_hash_is_that_of_what_the_bytes_mean() -> None:
    one = hash_of(parse(json.dumps(NESTED)))
    assert hash_of(parse(json.dumps({**NESTED, "doc": "Other."}, indent=1))) == one
    fields = NESTED["fields"]
    for index, change in (
        (3, {"type": ["null", decimal(9, 3)]}),
        (3, {"type": [decimal(9, 2), "null"]}),
        (4, {"type": {"type": "map", "values": "long"}}),
        (5, {"default": "B"}),
    ):
        changed = [{**f, **change} if i == index else f for i, f in enumerate(fields)]
        assert hash_of(parse(json.dumps({**NESTED, "fields": changed}))) != one


def test_the_type_of_a_column_is_that_of_its_schema() -> None:
    assert spark_type(parse(json.dumps(NESTED))) == (
        "struct<plain:struct<id:bigint>,own:struct<id:bigint>,again:array<struct<id:bigint>>,"
        "price:decimal(9,2),at:map<string,timestamp>,e:string>"
    )


@pytest.mark.parametrize(
    ("kind", "wide"),
    [
        (decimal(18, 2), "decimal(38,2)"),
        (decimal(19, 2), "decimal(19,2)"),
        (decimal(4, 2, "fixed", name="F", size=8), "decimal(4,2)"),
        (decimal(4, 2, "fixed", name="F", size=9), "decimal(21,2)"),
        (decimal(4, 2, "fixed", name="F", size=20), "decimal(38,2)"),
    ],
)
def test_a_decimal_gets_room_for_what_its_bytes_can_be(kind: Any, wide: str) -> None:
    of = parse(json.dumps(record({"type": "array", "items": ["null", kind]})))
    assert spark_type(widened(of)) == f"struct<a:array<{wide}>>"


def test_a_prefix_is_the_byte_0_and_the_id_in_four_bytes() -> None:
    assert prefix_of(1) == b"\0\0\0\0\1"
    assert prefix_of(2**31 - 1) == b"\0\x7f\xff\xff\xff"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "give `version`, `pin` or both, or else `schema`"),
        ({"version": 1, "schema": "{}"}, "give `version`, `pin` or both, or else `schema`"),
        ({"version": 1, "register": True}, "`register` needs the text of a schema"),
    ],
)
def test_what_values_are_encoded_with_is_said_once(
    server: RegistryServer, arguments: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigurationError, match=said):
        encode("value", Registry(server.url), "orders", **arguments)


@pytest.mark.parametrize(
    ("spark", "scala"), [("3.5.9", "2.12"), ("4.0.2", "2.13"), ("4.1.1-amzn-0", "2.13")]
)
def test_the_avro_jar_fits_spark(spark: str, scala: str) -> None:
    assert package_for(spark) == f"org.apache.spark:spark-avro_{scala}:{spark[:5]}"


@pytest.mark.parametrize("spark", ["3.4.1", "4.3.0", "5", ""])
def test_without_an_avro_jar_for_spark_the_error_says_so(spark: str) -> None:
    with pytest.raises(ConfigurationError, match=r"for Spark 3\.5 to 4\.2 only"):
        package_for(spark)


def test_limits_are_added_to_the_options_that_a_jvm_has() -> None:
    added = with_limits("-Da='x  y'")
    assert added.startswith("-Da='x  y' -D")
    assert all(f"-D{name}={most}" in added.split() for name, most in LIMITS.items())
    assert with_limits(added) == added
    own = "-Dorg.apache.avro.limits.string.maxLength=7"
    assert with_limits(own).count("string.maxLength") == 1


@pytest.mark.parametrize(
    ("driver", "executors", "lacking"),
    [
        (True, None, []),
        (True, with_limits("-Da=b"), []),
        (False, with_limits("-Da=b"), ["spark.driver.extraJavaOptions"]),
        (True, "-Da=b", ["spark.executor.extraJavaOptions"]),
        (True, "", ["spark.executor.extraJavaOptions"]),
    ],
)
def test_each_jvm_has_to_have_limits(
    driver: bool, executors: str | None, lacking: list[str]
) -> None:
    assert without_limits(driver, executors) == lacking


@pytest.mark.parametrize(
    ("listed", "has"),
    [
        ("/a.jar,/jars/spark-avro_2.13-4.2.0.jar", True),
        ("org:a:1, org.apache.spark:spark-avro_2.13:4.2.0", True),
        ("spark-avro_2.12-3.5.9.jar", True),
        ("/jars/my-spark-avro-tools.jar", False),
        ("", False),
    ],
)
def test_an_avro_jar_is_known_by_its_name(listed: str, has: bool) -> None:
    assert has_jar(listed) == has
