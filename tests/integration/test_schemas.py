"""Single values with a schema's id before them.

Confluent's own serializers make and read values; what a registry says comes over HTTP.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from eoskafka import ConfigurationError, RecordError, with_dead_letters
from eoskafka.schemas import Registry, decode, encode, id_of, try_decode
from eoskafka.schemas.jar import LIMITS
from harness.registry import RegistryServer
from harness.schemas import framed
from harness.versions import needs_avro
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column
from pyspark.sql import functions as sql
from sessions import settings
from shop import TOTAL, V1, V2, Shop

pytestmark = needs_avro
slow = pytest.mark.slow

REBASE = "spark.sql.avro.datetimeRebaseModeInWrite"


def test_values_of_confluents_serializer_are_read_by_the_schema_of_their_ids(shop: Shop) -> None:
    client = SchemaRegistryClient({"url": shop.server.url})
    context = SerializationContext("shop", MessageField.VALUE)
    values = [
        AvroSerializer(client, json.dumps(schema))(value, context)
        for schema, value in (
            (V1, {"id": 7, "note": "a"}),
            (V2, {"id": 8, "price": 2.0}),
            (V1, {"id": 9, "note": None}),
        )
    ]
    rows = shop.values(*values, None)
    by_v1 = rows.select(decode("value", shop.registry, "shop-value", version=1).alias("o"))
    assert [r.o and tuple(r.o) for r in by_v1.collect()] == [
        (7, "a"),
        (8, None),
        (9, None),
        None,
    ]
    by_v2 = rows.select(decode("value", shop.registry, "shop-value", version=2).alias("o"))
    assert [r.o and tuple(r.o) for r in by_v2.collect()] == [(1.5, 7), (2.0, 8), (1.5, 9), None]


def test_confluents_deserializer_reads_what_is_encoded(shop: Shop) -> None:
    client = SchemaRegistryClient({"url": shop.server.url})
    context = SerializationContext("shop", MessageField.VALUE)
    orders = shop.streams.spark.sql(
        "select named_struct('id', 7L, 'note', 'a') o union all select named_struct('id', 8L, "
        "'note', null) union all select null"
    )
    made = orders.select(encode("o", shop.registry, "orders", version=1).alias("v")).collect()
    read = AvroDeserializer(client)
    assert [row.v and read(bytes(row.v), context) for row in made] == [
        {"id": 7, "note": "a"},
        {"id": 8, "note": None},
        None,
    ]
    assert bytes(made[0].v) == framed(300, V1, {"id": 7, "note": "a"})


def logical(kind: str, is_also: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": is_also, **more}


def record(**fields: Any) -> dict[str, Any]:
    made = [{"name": name, "type": kind} for name, kind in fields.items()]
    return {"type": "record", "name": "All", "namespace": "of.all", "fields": made}


PRICE = logical("bytes", "decimal", precision=6, scale=2)
WIDE = logical("bytes", "decimal", precision=30, scale=4)
FIXED = logical("fixed", "decimal", name="Money", size=12, precision=9, scale=3)
ALL = record(
    i="int",
    f="float",
    d="double",
    b="boolean",
    raw="bytes",
    day=logical("int", "date"),
    ms=logical("long", "timestamp-millis"),
    us=logical("long", "timestamp-micros"),
    local_ms=logical("long", "local-timestamp-millis"),
    local_us=logical("long", "local-timestamp-micros"),
    ident=logical("string", "uuid"),
    price=PRICE,
    wide=WIDE,
    fixed=FIXED,
    e={"type": "enum", "name": "E", "symbols": ["A", "B"]},
    f2={"type": "fixed", "name": "Two", "size": 2},
    prices={"type": "array", "items": ["null", "Money"]},
    by={
        "type": "map",
        "values": {
            "type": "record",
            "name": "In",
            "fields": [{"name": "price", "type": ["null", PRICE]}],
        },
    },
)
AT = datetime(1583, 3, 4, 5, 6, 7, 8000, tzinfo=timezone.utc)
LOCAL = datetime(2024, 3, 31, 2, 30, 0, 123000)
VALUE: dict[str, Any] = {
    "i": -7,
    "f": 1.5,
    "d": 0.1,
    "b": True,
    "raw": b"\0\xff",
    "day": date(1500, 2, 28),
    "ms": AT,
    "us": AT,
    "local_ms": LOCAL,
    "local_us": LOCAL,
    "ident": "5b8e1b5e-5f2e-4c3d-9b0a-0123456789ab",
    "price": Decimal("-9999.99"),
    "wide": Decimal("12345678901234567890.1234"),
    "fixed": Decimal("-123456.789"),
    "e": "B",
    "f2": b"ab",
    "prices": [Decimal("1.000"), None],
    "by": {"k": {"price": Decimal("0.01")}, "n": {"price": None}},
}


@pytest.mark.parametrize("zone", [pytest.param("UTC", marks=slow), "Europe/Berlin"])
def test_every_supported_type_is_read_and_written_as_confluent_does(shop: Shop, zone: str) -> None:
    client = SchemaRegistryClient({"url": shop.server.url})
    context = SerializationContext("all", MessageField.VALUE)
    given = {**VALUE, "ident": UUID(VALUE["ident"])}
    value = AvroSerializer(client, json.dumps(ALL))(given, context)
    assert value is not None
    # By default, Spark 3.5 does not write days that are as old as these.
    how = {"spark.sql.session.timeZone": zone, REBASE: "CORRECTED"}
    with settings(shop.streams.spark, how):
        rows = shop.values(value).select(
            decode("value", shop.registry, "all-value", version=1).alias("o")
        )
        # Python's timestamps are in the zone of its process: so these are compared as numbers.
        micros = [sql.unix_micros(f"o.{name}") for name in ("ms", "us")]
        row = rows.select("o", *micros).first()
        assert row is not None
        found = {k: v for k, v in row.o.asDict(recursive=True).items() if k not in ("ms", "us")}
        assert found == {k: v for k, v in VALUE.items() if k not in ("ms", "us")}
        since = (AT - datetime(1970, 1, 1, tzinfo=timezone.utc)).total_seconds() * 1_000_000
        assert list(row[1:]) == [since, since]
        again = rows.select(encode("o", shop.registry, "all-value", version=1).alias("v")).first()
    assert again is not None
    assert AvroDeserializer(client)(bytes(again.v), context) == given


NO_ID = "it does not begin with the byte 0 and the four bytes of a schema id"
GOOD = framed(300, V1, {"id": 7, "note": "abc"})
NOT_KNOWN = "none of the known ones of orders"
UNREAD = "its bytes are not exactly one value of the schema with the id 300"
WRONG = {
    b"": NO_ID,
    b"\0": NO_ID,
    b"\0\0\0\1": NO_ID,
    b"\1" + GOOD[1:]: NO_ID,
    b"\0\0\0\1\x2b" + GOOD[5:]: f"its schema id 299 is {NOT_KNOWN}",
    b"\0\xff\xff\xff\xff": f"its schema id {2**32 - 1} is {NOT_KNOWN}",
    GOOD[:5]: UNREAD,
    GOOD[:-1]: UNREAD,
    GOOD + b"\0": UNREAD,
    GOOD + GOOD[5:]: UNREAD,
}


def condition_of(reason: str) -> str:
    unknown, other = "EOSKAFKA_UNKNOWN_SCHEMA_ID", "EOSKAFKA_UNDECODABLE_VALUE"
    return unknown if "is none of" in reason else other


def test_a_value_that_cannot_be_decoded_is_an_error_of_its_row(shop: Shop) -> None:
    read = try_decode("value", shop.registry, "orders", version=1, unknown_ids="error")
    rows = shop.values(*WRONG, GOOD, None).select(read.alias("d"))
    found = rows.collect()
    reasons = [f"{condition_of(reason)}: {reason}" for reason in WRONG.values()]
    assert [row.d.error for row in found] == [*reasons, None, None]
    assert [row.d.value for row in found[:-2]] == [None] * len(WRONG)
    assert tuple(found[-2].d.value) == (7, "abc")
    assert found[-1].d.value is None
    # Spark does not compute the other field then.
    assert [row.error for row in rows.select("d.error").collect()] == [*reasons, None, None]


PARTS: dict[str, Callable[[Column], Column]] = {
    "all": lambda order: order,
    "a field": lambda order: order["id"],
    "whether it is null": lambda order: order.isNull(),
}
# One of each kind with one of the parts; the others are only in the slow set.
QUICK = {
    (b"\0", "all"),
    (b"\0\0\0\1\x2b" + GOOD[5:], "whether it is null"),
    (GOOD[:-1], "a field"),
}


@pytest.mark.parametrize(
    ("value", "part"),
    [
        pytest.param(value, part, marks=[] if (value, part) in QUICK else [slow])
        for value in WRONG
        for part in PARTS
    ],
)
def test_by_default_such_a_value_is_a_failure_whatever_is_used_of_it(
    shop: Shop, value: bytes, part: str
) -> None:
    order = decode("value", shop.registry, "orders", version=1)
    with pytest.raises(RecordError) as error:
        shop.values(value).select(PARTS[part](order)).collect()
    if "is none of" in WRONG[value]:
        assert error.value.condition == "EOSKAFKA_UNKNOWN_SCHEMA_ID"
        assert "the subject orders, but this id is not among" in str(error.value)
        assert "Run the program again" in str(error.value)
    else:
        assert error.value.condition == "EOSKAFKA_UNDECODABLE_VALUE"
        assert WRONG[value] in str(error.value)


def test_the_error_of_a_row_does_not_depend_on_what_else_is_registered(shop: Shop) -> None:
    def errors() -> list[str]:
        read = try_decode("value", shop.registry, "orders", version=1, unknown_ids="error")
        return [row.d.error for row in shop.values(*WRONG).select(read.alias("d")).collect()]

    before = errors()
    shop.server.add("orders", V2)
    assert errors() == before


def test_a_new_id_in_a_topic_of_several_subjects_reaches_a_decode_that_fails(shop: Shop) -> None:
    total = 301
    values = [GOOD, framed(total, TOTAL, {"id": 8, "total": 1.0}), None]
    orders = decode("value", shop.registry, "orders", version=1)
    totals = decode("value", shop.registry, "totals", version=1, ids=[total])
    made = sql.when(id_of("value").isin([total]), totals["id"]).otherwise(orders["id"]).alias("id")
    assert [row.id for row in shop.values(*values).select(made).collect()] == [7, 8, None]
    third = shop.server.add("totals", {**TOTAL, "doc": "Newer."})
    rows = shop.values(*values, framed(third, TOTAL, {"id": 9, "total": 1.0}))
    with pytest.raises(RecordError, match="Do not filter by ids") as error:
        rows.select(made).collect()
    assert error.value.condition == "EOSKAFKA_UNKNOWN_SCHEMA_ID"


@pytest.mark.parametrize(
    "used",
    [pytest.param("d", marks=slow), "d.value", pytest.param("d.value.id", marks=slow), "d.error"],
)
def test_an_unknown_id_fails_whatever_is_used_where_other_errors_are_rows(
    shop: Shop, used: str
) -> None:
    unknown = shop.values(b"\0\0\0\1\x2b" + GOOD[5:])
    rows = unknown.select(try_decode("value", shop.registry, "orders", version=1).alias("d"))
    with pytest.raises(RecordError, match="EOSKAFKA_UNKNOWN_SCHEMA_ID"):
        rows.select(used).collect()


def test_an_undecodable_value_is_a_dead_letter_whatever_the_query_uses(shop: Shop) -> None:
    source = "binary(null) key, 't' topic, 0 partition, 0L offset, timestamp(0) timestamp"
    records = shop.values(GOOD, GOOD[:-1]).selectExpr("value", *source.split(", "))
    read = try_decode("value", shop.registry, "orders", version=1)
    for rows in (
        records.withColumn("read", read),
        records.withColumn("read", read).selectExpr("*", "read.error why").drop("read"),
    ):
        letters = with_dead_letters(
            rows, error=sql.lit(None), value="topic", topic="good", dead_letter_topic="dead"
        )
        assert [row.topic for row in letters.select("topic").collect()] == ["good", "dead"]


def test_a_dead_letter_is_not_encoded_from_the_nulls_of_its_value(shop: Shop) -> None:
    source = "binary(null) key, 't' topic, 0 partition, 0L offset, timestamp(0) timestamp"
    records = shop.values(GOOD, GOOD[:-1]).selectExpr("value", *source.split(", "))
    read = records.withColumn("read", try_decode("value", shop.registry, "orders", version=1))
    total = sql.struct(sql.col("read.value.id").alias("id"), sql.lit(1.0).alias("total"))
    letters = with_dead_letters(
        read,
        error="read.error",
        value=encode(total, shop.registry, "totals", version=1),
        topic="good",
        dead_letter_topic="dead",
        # Then Spark makes the value before it knows whether the row is right.
        max_bytes=1_000,
    )
    found = [(row.topic, bytes(row.value)) for row in letters.select("topic", "value").collect()]
    assert found == [
        ("good", framed(301, TOTAL, {"id": 7, "total": 1.0})),
        ("dead", GOOD[:-1]),
    ]


def test_an_error_that_would_be_another_one_is_computed_once(shop: Shop) -> None:
    source = "binary(null) key, 't' topic, 0 partition, 0L offset, timestamp(0) timestamp"
    records = shop.values(*[GOOD] * 200).selectExpr("value", *source.split(", "))
    letters = with_dead_letters(
        records,
        # Spark gives each place of this text a seed of its own.
        error=sql.expr("case when rand() < 0.5 then 'by chance' end"),
        value="value",
        topic="good",
        dead_letter_topic="dead",
    )
    found = letters.select("topic", "value").collect()
    assert {row.topic for row in found} == {"good", "dead"}
    assert all(row.value is not None for row in found)


# As Avro reads them, each value of the first schema is one of the second, and another one.
DIFFERENT = {
    "decimals": (
        record(a=logical("bytes", "decimal", precision=6, scale=3)),
        record(a=PRICE),
        {"a": Decimal("1.234")},
        r"decimal\(6,3\) in the writer's schema and bytes with the logical type decimal\(6,2\)",
    ),
    "timestamps": (
        record(a=logical("long", "timestamp-millis")),
        record(a=logical("long", "timestamp-micros")),
        {"a": AT},
        "timestamp-millis in the writer's schema",
    ),
    "references": (None, record(a="int"), {"a": 1}, r"it refers to other schemas \(B\)"),
}


@pytest.mark.parametrize("name", ["decimals", pytest.param("timestamps", marks=slow), "references"])
def test_a_schema_that_cannot_be_resolved_is_named_when_its_id_appears(
    shop: Shop, name: str
) -> None:
    writer, reader, value, said = DIFFERENT[name]
    if writer is None:
        writer = {**reader, "doc": "Other."}
        to = [{"name": "B", "subject": "orders", "version": 1}]
        ident = shop.server.add("both", writer, references=to)
    else:
        ident = shop.server.add("both", writer)
    number = shop.server.add("both", reader)
    other = framed(ident, writer, value)
    how: dict[str, Any] = {"version": 2}
    good = framed(
        number,
        reader,
        value
        if name == "references"
        else {"a": AT}
        if name == "timestamps"
        else {"a": Decimal("1.23")},
    )
    assert shop.values(good).select(decode("value", shop.registry, "both", **how)).count() == 1
    rows = shop.values(other, good)
    with pytest.raises(RecordError, match=said) as error:
        rows.select(decode("value", shop.registry, "both", **how)["a"]).collect()
    assert error.value.condition == "EOSKAFKA_UNRESOLVABLE_SCHEMA"
    found = rows.select(try_decode("value", shop.registry, "both", **how).alias("d")).collect()
    assert found[0].d.value is None
    assert found[0].d.error.startswith("EOSKAFKA_UNRESOLVABLE_SCHEMA: its schema, with the id ")
    assert found[1].d.error is None
    with pytest.raises(ConfigurationError, match=said):
        decode("value", shop.registry, "both", **how, ids=[ident, number])


def two_versions() -> tuple[dict[str, Any], dict[str, Any]]:
    """A writer's and a reader's schema with everything that may differ."""
    symbols = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
    writer = record(
        gone="string",
        wide="int",
        exact="int",
        single="float",
        maybe="int",
        other=["int", "null"],
        e=symbols,
        inner={"type": "record", "name": "In", "fields": [{"name": "x", "type": "int"}]},
    )
    reader = record(
        inner={
            "type": "record",
            "name": "In",
            "fields": [
                {"name": "y", "type": PRICE, "default": "\u0001\u0000"},
                {"name": "x", "type": "long"},
            ],
        },
        e={**symbols, "symbols": ["C", "B", "A"]},
        other=["null", "long"],
        maybe=["null", "double"],
        single="double",
        exact="double",
        wide="long",
    )
    for name, kind, default in (
        ("d_at", logical("long", "timestamp-millis"), 1000),
        ("d_map", {"type": "map", "values": "In"}, {"k": {"x": 1}}),
        ("d_null", ["null", "string"], None),
        ("d_some", ["string", "null"], "é"),
        ("d_raw", "bytes", "\u00ff"),
        ("d_e", "E", "C"),
        ("d_list", {"type": "array", "items": "float"}, [1, 2.5]),
    ):
        reader["fields"].append({"name": name, "type": kind, "default": default})
    return writer, reader


def test_what_is_resolved_is_what_avros_specification_says(shop: Shop) -> None:
    writer, reader = two_versions()
    value = {
        "gone": "x",
        "wide": -5,
        "exact": 2**31 - 1,
        "single": 0.1,
        "maybe": 3,
        "other": None,
        "e": "B",
        "inner": {"x": 9},
    }
    # Of a writer a default means nothing, not even if it is wrong.
    wrong = [{**f, "default": 5} if f["name"] == "gone" else f for f in writer["fields"]]
    number = shop.server.add("two", {**writer, "fields": wrong})
    shop.server.add("two", reader)
    rows = shop.values(framed(number, writer, value))
    order = decode("value", shop.registry, "two", version=2)
    row = rows.select(order.alias("o"), sql.unix_micros(order["d_at"])).first()
    assert row is not None
    found = row.o.asDict(recursive=True)
    assert found.pop("d_at") is not None
    assert row[1] == 1_000_000
    assert found == {
        "inner": {"y": Decimal("2.56"), "x": 9},
        "e": "B",
        "other": None,
        "maybe": 3.0,
        "single": struct.unpack("f", struct.pack("f", 0.1))[0],
        "exact": float(2**31 - 1),
        "wide": -5,
        "d_map": {"k": {"y": Decimal("2.56"), "x": 1}},
        "d_null": None,
        "d_some": "é",
        "d_raw": b"\xff",
        "d_e": "C",
        "d_list": [1.0, 2.5],
    }


MANY = {"type": "array", "items": "long"}


@pytest.mark.parametrize(
    ("gone", "payload", "ident"),
    [
        ("string", "04 61 62 0e", 7),
        # A length below 0.
        ("string", "01 0e", None),
        (MANY, "02 0a 00 0e", 7),
        # A block of one number, whose size is one byte.
        (MANY, "01 02 0a 00 0e", 7),
        # Its size says that it ends before it begins, or in the id.
        (MANY, "01 03 0e", None),
        (MANY, "01 03 0a 00 0e", 7),
        (MANY, "01 06 0a 00 0e", 7),
        ({"type": "map", "values": "long"}, "01 03 0e", None),
        ({"type": "map", "values": "long"}, "01 03 02 61 0a 00 0e", 7),
        # Python writes years up to 9999, and Spark knows more of them.
        (logical("int", "date"), "ff ff ff ff 0f 0e", 7),
        (PRICE, "18 7f ff ff ff ff ff ff ff ff ff ff ff 0e", 7),
    ],
)
def test_a_field_that_only_the_writer_has_is_read_and_not_skipped(
    shop: Shop, gone: Any, payload: str, ident: int | None
) -> None:
    number = shop.server.add("shorter", record(gone=gone, id="long"))
    shop.server.add("shorter", record(id="long"))
    value = struct.pack(">bI", 0, number) + bytes.fromhex(payload)
    read = try_decode("value", shop.registry, "shorter", version=2)
    (row,) = shop.values(value).select(read.alias("d")).collect()
    assert (row.d.value and row.d.value.id) == ident
    assert (row.d.error is None) == (ident is not None)


@pytest.mark.parametrize("ansi", ["true", pytest.param("false", marks=slow)])
def test_a_decimal_that_its_schema_has_no_digits_for_is_an_error(shop: Shop, ansi: str) -> None:
    kinds = {
        "a": PRICE,
        "b": {"type": "array", "items": PRICE},
        "c": {"type": "map", "values": record(a=PRICE)},
    }
    more = logical("bytes", "decimal", precision=38, scale=2)
    wide = {
        "a": more,
        "b": {"type": "array", "items": more},
        "c": {"type": "map", "values": record(a=more)},
    }
    # Of the last one Spark would take the lower 64 bits, which are 5.
    numbers = [Decimal("9999.99"), Decimal("10000.00"), Decimal(2**64 + 5).scaleb(-2)]
    with settings(shop.streams.spark, {"spark.sql.ansi.enabled": ansi}):
        for name in kinds:
            schema = {**record(v=kinds[name]), "name": name}
            other = {**record(v=wide[name]), "name": name}
            ident = shop.server.add(name, schema)
            values = [
                framed(
                    ident,
                    other,
                    {"v": n if name == "a" else [n] if name == "b" else {"k": {"a": n}}},
                )
                for n in numbers
            ]
            found = (
                shop.values(*values)
                .select(try_decode("value", shop.registry, name, version=1).alias("d"))
                .collect()
            )
            assert [row.d.error is None for row in found] == [True, False, False]
            (value,) = found[0].d.value
            assert numbers[0] in (
                value,
                value[0] if name == "b" else value["k"].a if name == "c" else None,
            )


def long(number: int) -> bytes:
    """A number as Avro writes it."""
    out = b""
    rest = number << 1
    while rest > 0x7F:
        out += bytes([rest & 0x7F | 0x80])
        rest >>= 7
    return out + bytes([rest])


def test_a_value_that_claims_to_be_giant_takes_no_memory(shop: Shop) -> None:
    schema = record(
        text=["null", "string"],
        raw="bytes",
        many={"type": "array", "items": "long"},
        by={"type": "map", "values": "long"},
    )
    ident = shop.server.add("giant", schema)
    value: dict[str, Any] = {"text": None, "raw": b"", "many": [], "by": {}}
    good = framed(ident, schema, value)
    # More than the JVM of the tests has.
    huge = long(2**31 - 100)
    poison = [
        good[:5] + long(1) + huge,
        good[:5] + long(0) + huge,
        good[:5] + long(0) + long(0) + huge,
        good[:5] + long(0) + long(0) + long(1) + long(5) + huge,
        good[:5] + long(0) + long(0) + long(0) + huge,
    ]
    read = try_decode("value", shop.registry, "giant", version=1).alias("d")
    found = shop.values(*poison, good).select(read).collect()
    assert [row.d.error is None for row in found] == [False] * len(poison) + [True]
    assert found[-1].d.value.asDict() == value


def test_values_that_are_no_records_are_decoded_too(shop: Shop) -> None:
    number = shop.server.add("names", {"type": "string"})
    rows = shop.values(framed(number, "string", "Ä"), GOOD)
    names = rows.select(
        try_decode("value", shop.registry, "names", version=1, unknown_ids="error").alias("d")
    )
    assert [row.d.value for row in names.collect()] == ["Ä", None]
    again = names.select(encode("d.value", shop.registry, "names", version=1).alias("v")).first()
    assert again is not None
    assert bytes(again.v) == framed(number, "string", "Ä")


@pytest.mark.parametrize("what", [decode, try_decode, encode])
def test_raw_bytes_at_the_top_are_refused(shop: Shop, what: Callable[..., Column]) -> None:
    shop.server.add("raw", '"bytes"')
    with pytest.raises(ConfigurationError, match="its top level is of the type bytes"):
        what("value", shop.registry, "raw", version=1)


@pytest.mark.parametrize(
    ("column", "given"),
    [
        ("named_struct('id', 7, 'note', 'a')", "struct<id:int,note:string>"),
        ("named_struct('note', 'a', 'id', 7L)", "struct<note:string,id:bigint>"),
        # Spark would write milliseconds.
        ("named_struct('id', timestamp(7), 'note', 'a')", "struct<id:timestamp,note:string>"),
    ],
)
def test_a_column_of_another_type_is_not_encoded(shop: Shop, column: str, given: str) -> None:
    rows = shop.streams.spark.sql(f"select {column} o")
    with pytest.raises(ConfigurationError, match="EOSKAFKA_ENCODED_TYPE") as error:
        rows.select(encode("o", shop.registry, "orders", version=1)).collect()
    assert f"has the type {given}, and" in str(error.value)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("long", "cast(null as bigint)"),
        pytest.param("string", "cast(null as string)", marks=slow),
        ({"type": "array", "items": "long"}, "array(1L, null)"),
        pytest.param(
            {"type": "map", "values": "long"}, "map('k', cast(null as bigint))", marks=slow
        ),
        pytest.param(record(a="int"), "named_struct('a', cast(null as int))", marks=slow),
    ],
)
def test_an_encoded_null_where_none_is_allowed_is_a_failure(
    shop: Shop, kind: Any, value: str
) -> None:
    shop.server.add("nulls", {**record(v=kind), "name": "Nulls"})
    rows = shop.streams.spark.sql(f"select named_struct('v', {value}) o")
    made = rows.select(encode("o", shop.registry, "nulls", version=1))
    # Spark gives some of them no class of pyspark's.
    with pytest.raises((PySparkException, Py4JJavaError), match=r"(?i)null"):
        made.collect()


def test_days_of_the_julian_calendar_are_not_written(shop: Shop) -> None:
    with (
        settings(shop.streams.spark, {REBASE: "legacy"}),
        pytest.raises(ConfigurationError, match="Set it to CORRECTED"),
    ):
        encode("value", shop.registry, "orders", version=1)


def test_the_calendar_is_that_of_the_active_session(shop: Shop) -> None:
    spark = shop.streams.spark
    other = spark.newSession()
    other.conf.set(REBASE, "LEGACY")
    try:
        # It is the active one from then on.
        other.createDataFrame([(1,)], "a int")
        with pytest.raises(ConfigurationError, match="Set it to CORRECTED"):
            encode("value", shop.registry, "orders", version=1)
    finally:
        spark.createDataFrame([(1,)], "a int")
    encode("value", shop.registry, "orders", version=1)


def test_a_schema_can_be_found_or_registered_for_encoding(shop: Shop) -> None:
    rows = shop.streams.spark.sql("select named_struct('id', 7L, 'note', 'a') o")
    text = json.dumps({**V1, "doc": "Other."})
    with pytest.raises(ConfigurationError, match="does not have this schema"):
        encode("o", shop.registry, "orders", schema=text)
    made = rows.select(encode("o", shop.registry, "orders", schema=text, register=True)).first()
    again = rows.select(encode("o", shop.registry, "orders", schema=text)).first()
    assert made is not None
    assert made == again
    assert bytes(made[0])[5:] == framed(0, V1, {"id": 7, "note": "a"})[5:]


def test_the_id_of_a_value_can_be_asked_for(shop: Shop) -> None:
    rows = shop.values(GOOD, b"\0\xff\xff\xff\xff", b"\1" + GOOD[1:], b"\0", None)
    found = rows.select(id_of("value").alias("id")).collect()
    assert [row.id for row in found] == [300, 2**32 - 1, None, None, None]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "give `version`, `pin` or both"),
        ({"version": True}, "must be an integer from 1, or 'latest'"),
        ({"version": 0, "pin": "/p"}, "must be an integer from 1, or 'latest'"),
        ({"version": True, "pin": "/p"}, "must be an integer from 1, or 'latest'"),
        ({"version": 1, "ids": []}, "`ids` names no schema ids"),
        ({"version": 1, "ids": [300, 7]}, r"the subject orders does not have: \[7\]"),
        ({"version": 1, "unknown_ids": "skip"}, "it must be 'fail' or 'error'"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(
    shop: Shop, arguments: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigurationError, match=said):
        try_decode("value", shop.registry, "orders", **arguments)


@pytest.mark.parametrize("name", LIMITS)
def test_a_session_without_limits_is_refused(shop: Shop, name: str) -> None:
    system = shop.streams.spark._jvm.java.lang.System  # type: ignore[union-attr]
    before = system.clearProperty(name)
    try:
        with pytest.raises(ConfigurationError, match=r"spark\.driver\.extraJavaOptions of this"):
            decode("value", shop.registry, "orders", version=1)
    finally:
        system.setProperty(name, before)


def test_a_plan_shows_no_secret(shop: Shop) -> None:
    with RegistryServer(user="me:pass-1").running() as server:
        server.add("orders", V1)
        registry = Registry(server.url, auth=("me", "pass-1"))
        order = decode("value", registry, "orders", version=1)
        rows = shop.values(GOOD).select(encode(order, registry, "orders", version=1))
    plan = rows._jdf.queryExecution().toString()
    assert "pass-1" not in plan
    assert "FROM_AVRO" in plan.upper()
