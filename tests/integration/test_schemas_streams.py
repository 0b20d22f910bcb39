"""Values with a schema's id before them in streams, batches and `foreachBatch`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from eoskafka import ConfigurationError, real_time_trigger, with_dead_letters
from eoskafka.audit import UndecidedError
from eoskafka.schemas import decode, encode, try_decode
from eoskafka.schemas.registry import requests_of
from eoskafka.schemas.types import hash_of, parse
from eoskafka.session import REAL_TIME_CHECK
from harness import until
from harness.pages import python_blocks
from harness.schemas import framed, unframed
from harness.versions import needs_avro, needs_real_time
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql
from sessions import settings
from shop import TOTAL, V1, V2, Shop, of_v1, of_v2
from streams import QUERY_S

pytestmark = needs_avro

GOOD = framed(300, V1, {"id": 7, "note": "abc"})


def ident(shop: Shop, subject: str, version: int = 1) -> int:
    with requests_of(shop.registry) as asked:
        return asked.version(subject, version).id


def totals(shop: Shop, rows: DataFrame, output: str, dead: str, **how: Any) -> DataFrame:
    """The total of each order; what is no order is a dead letter."""
    read = rows.withColumn("order", try_decode("value", shop.registry, "orders", **how))
    value = sql.when(
        sql.col("order.value").isNotNull(),
        sql.expr("struct(order.value.id as id, cast(order.value.id * 2 as double) as total)"),
    )
    return with_dead_letters(
        read,
        error="order.error",
        value=encode(value, shop.registry, "totals", version=1),
        topic=output,
        dead_letter_topic=dead,
    )


@pytest.mark.parametrize("scope", ["task", "epoch"])
def test_a_stream_decodes_and_encodes_in_each_scope(shop: Shop, scope: str) -> None:
    streams = shop.streams
    topic, output, dead = streams.topic(), streams.topic(), streams.topic()
    wrong = [b"", b"\1nothing", GOOD[:-1], GOOD + b"\0"]
    shop.send(topic, [*of_v1(*range(10)), *wrong, None, *of_v2(shop, *range(10, 20))])
    rows = totals(shop, streams.source(topic), output, dead, version=2)
    if scope == "epoch":
        rows = rows.repartition(3)
    query = streams.run(streams.sink(rows, None))
    assert {p["sink"]["metrics"]["transactionScope"] for p in query.recentProgress} == {scope}
    found = shop.read(output)
    # The order that was null is a record without a value.
    assert found.count(None) == 1
    numbers = [unframed(ident(shop, "totals"), TOTAL, v)["id"] for v in found if v is not None]
    assert sorted(numbers) == [*range(20)]
    assert sorted(v or b"" for v in shop.read(dead)) == sorted(wrong)


def test_an_id_that_appears_later_stops_the_query_and_a_restart_decodes_it(shop: Shop) -> None:
    streams = shop.streams
    topic, output, dead = streams.topic(), streams.topic(), streams.topic()
    checkpoint, group = streams.checkpoint(), streams.group()

    def writer() -> Any:
        source = streams.source(topic, {"kafka.group.id": group})
        return streams.sink(totals(shop, source, output, dead, version=1), None, checkpoint)

    shop.send(topic, of_v1(*range(10)))
    streams.run(writer())
    # The plan is made before the id is there.
    late = writer()
    # Of both partitions: each task has one.
    shop.send(topic, [*of_v1(10, 11), *of_v2(shop, 12, 13)])
    error = streams.failure(late)
    assert "[EOSKAFKA_UNKNOWN_SCHEMA_ID] A record has the schema id 302. The query" in error
    total = ident(shop, "totals")
    assert shop.totals(output, total) == {n: 2.0 * n for n in range(10)}
    streams.run(writer())
    assert shop.totals(output, total) == {n: 2.0 * n for n in range(14)}
    assert shop.read(dead) == []
    assert streams.offsets(group, topic) == streams.ends(topic)


@pytest.mark.slow
def test_an_id_that_appears_later_can_be_a_dead_letter(shop: Shop) -> None:
    streams = shop.streams
    topic, output, dead = streams.topic(), streams.topic(), streams.topic()
    rows = totals(shop, streams.source(topic), output, dead, version=1, unknown_ids="error")
    late = of_v2(shop, 2, 3)
    shop.send(topic, [*of_v1(0, 1), *late])
    streams.run(streams.sink(rows, None))
    assert shop.totals(output, ident(shop, "totals")) == {0: 0.0, 1: 2.0}
    assert sorted(v or b"" for v in shop.read(dead)) == sorted(late)


def test_only_chosen_ids_are_decoded(shop: Shop) -> None:
    late = of_v2(shop, 2)
    rows = shop.values(*of_v1(1), *late).select(
        try_decode(
            "value", shop.registry, "orders", version=1, ids=[300], unknown_ids="error"
        ).alias("d")
    )
    assert [row.d.error is None for row in rows.collect()] == [True, False]


def test_a_pinned_schema_stays_when_a_newer_one_comes(shop: Shop, tmp_path: Path) -> None:
    pin = str(tmp_path / "orders.schema")
    values = of_v1(1)

    def fields() -> list[str]:
        rows = shop.values(*values).select(
            decode("value", shop.registry, "orders", pin=pin).alias("o")
        )
        assert rows.first()[0]["id"] == 1  # type: ignore[index]
        return list(rows.select("o.*").columns)

    assert fields() == ["id", "note"]
    values += of_v2(shop, 2)
    assert fields() == ["id", "note"]
    newest = shop.values(*values).select(
        decode("value", shop.registry, "orders", version="latest").alias("o")
    )
    assert newest.select("o.*").columns == ["price", "id"]


def test_a_pin_names_the_schema_with_its_hash(shop: Shop, tmp_path: Path) -> None:
    folder = tmp_path / "pin"
    decode("value", shop.registry, "orders", version=1, pin=str(folder))
    (file,) = folder.glob("part-*")
    found = json.loads(file.read_text(encoding="utf-8"))
    digest = hash_of(parse(json.dumps(V1)))
    wanted = {"format": 1, "subject": "orders", "version": 1, "id": 300, "sha256": digest}
    assert found == wanted


def test_a_first_start_that_is_refused_leaves_no_pin(shop: Shop, tmp_path: Path) -> None:
    pin = tmp_path / "pin"
    shop.server.add("orders", {**V1, "fields": [{"name": "a", "type": ["int", "string"]}]})
    shop.server.add("orders", {**V1, "fields": [{"name": "a", "type": "int"}]})
    for what, how, said in (
        (decode, {"version": 1, "ids": [7]}, "does not have"),
        (decode, {"version": 1, "ids": [300, 302]}, "leave them out"),
        (try_decode, {"version": 2}, "is not supported"),
        (encode, {"version": 2}, "is not supported"),
    ):
        with pytest.raises(ConfigurationError, match=said):
            what("value", shop.registry, "orders", pin=str(pin), **how)
        assert not pin.exists()
    decode("value", shop.registry, "orders", pin=str(pin), version=3, ids=[303])
    encode("value", shop.registry, "orders", pin=str(pin))
    assert pin.exists()


def test_a_start_with_another_schema_than_the_pinned_one_is_refused(
    shop: Shop, tmp_path: Path
) -> None:
    pin = str(tmp_path / "orders.schema")
    of_v2(shop, 2)

    def start(**how: Any) -> list[str]:
        order = decode("value", shop.registry, "orders", pin=pin, **how)
        return list(shop.values().select(order.alias("o")).select("o.*").columns)

    assert start(version=1) == start() == start(version="latest") == ["id", "note"]
    with pytest.raises(ConfigurationError, match=r"asks for version 2\. Nothing .* delete "):
        start(version=2)
    # The subject is deleted for good, and version 1 is another schema then.
    shop.server.forget("orders")
    shop.server.add("orders", V2)
    with pytest.raises(ConfigurationError, match=r"was deleted and registered again.* delete "):
        start(version=1)
    shop.server.forget("orders")
    shop.server.add("orders", V1)
    assert start() == ["id", "note"]
    # Another registry has the same version with another id, or the id for another schema.
    (file,) = (tmp_path / "orders.schema").glob("part-*")
    text = file.read_text(encoding="utf-8")
    for change in (("300", "299"), ('"sha256": "', '"sha256": "0')):
        for each in file.parent.iterdir():
            each.unlink()
        file.write_text(text.replace(*change), encoding="utf-8")
        with pytest.raises(ConfigurationError, match="this is another registry"):
            start()


def test_a_pin_that_is_something_else_is_refused(shop: Shop, tmp_path: Path) -> None:
    def decoded(name: str, subject: str = "orders") -> None:
        decode("value", shop.registry, subject, pin=str(tmp_path / name))

    decoded("pin")
    with pytest.raises(ConfigurationError, match="has a schema of the subject orders, and not of"):
        decoded("pin", "totals")
    (tmp_path / "pin" / "part-other.txt").write_text("hello\n")
    with pytest.raises(ConfigurationError, match="has 2 schemas, because several drivers"):
        decoded("pin")
    former = '{"subject": "orders", "id": 300}'
    newer = json.dumps({"format": 2, "subject": "orders", "version": 1, "id": 300, "sha256": ""})
    for place, text in enumerate(("hello", former, newer, "[]")):
        (tmp_path / f"{place}").mkdir()
        (tmp_path / f"{place}" / "a.txt").write_text(f"{text}\n")
        with pytest.raises(ConfigurationError, match="has another content than the schema"):
            decoded(f"{place}")
    # A driver that died before it had written the line.
    (tmp_path / "empty").mkdir()
    decoded("empty")


def test_foreach_batch_asks_for_new_ids_in_each_batch(shop: Shop) -> None:
    streams = shop.streams
    topic, output = streams.topic(), streams.topic()

    def write(rows: DataFrame, batch: int) -> None:
        order = decode("value", shop.registry, "orders", version=1)
        total = sql.struct(order["id"].alias("id"), sql.lit(1.0).alias("total"))
        made = rows.select(encode(total, shop.registry, "totals", version=1).alias("value"))
        made.write.format("eoskafka").mode("append").options(
            **{"kafka.bootstrap.servers": streams.servers, "topic": output, "writeId": "totals"}
        ).save()

    rows = streams.source(topic)
    writer = rows.writeStream.foreachBatch(write).option(
        "checkpointLocation", str(streams.checkpoint())
    )
    query = streams.start(writer)
    shop.send(topic, of_v1(0, 1))
    query.processAllAvailable()
    shop.send(topic, of_v2(shop, 2, 3))
    query.processAllAvailable()
    query.stop()
    assert sorted(shop.totals(output, ident(shop, "totals"))) == [0, 1, 2, 3]


@pytest.mark.slow
def test_a_batch_read_and_a_batch_write(shop: Shop) -> None:
    streams = shop.streams
    topic, output, dead = streams.topic(), streams.topic(), streams.topic()
    shop.send(topic, [*of_v1(*range(4)), *of_v2(shop, 4, 5), b"x"])
    streams.save(totals(shop, streams.batch(topic), output, dead, version=2), None)
    assert sorted(shop.totals(output, ident(shop, "totals"))) == [*range(6)]
    assert shop.read(dead) == [b"x"]


@needs_real_time
def test_real_time_mode_decodes_too(shop: Shop) -> None:
    streams = shop.streams
    topic, output, dead = streams.topic(), streams.topic(), streams.topic()
    shop.send(topic, [*of_v1(*range(4)), b"x"])
    with settings(streams.spark, {REAL_TIME_CHECK: "false"}):
        rows = totals(shop, streams.source(topic), output, dead, version=1)
        writer = streams.sink(rows, None, mode="update")
        query = streams.start(real_time_trigger(writer, "10 minutes"))

        def are_there() -> bool:
            assert query.isActive, query.exception()
            try:
                return len(shop.read(output)) == 4 and shop.read(dead) == [b"x"]
            except UndecidedError:
                return False

        until(are_there, "the totals and the dead letter", QUERY_S)
        query.stop()
    assert sorted(shop.totals(output, ident(shop, "totals"))) == [*range(4)]


def test_what_the_page_shows_runs(shop: Shop, tmp_path: Path) -> None:
    streams = shop.streams
    page = Path(__file__).parents[2] / "docs" / "schemas.md"
    names: dict[str, Any] = {}
    server = shop.server
    for schema in (V1, V2, V2):
        server.add("orders-value", {**schema, "doc": str(server.count("orders-value"))})
    third = server.add("orders-value", {**V2, "doc": "2"})
    total = server.add("totals-value", TOTAL)
    server.add("clean-value", V2)
    refund = server.add("refunds-value", V2)
    topic, output, clean, dead = (streams.topic() for _ in range(4))
    started = []
    for block in python_blocks(page):
        code = block.replace("broker:9092", streams.servers)
        code = code.replace("https://registry:8081", server.url).replace(
            "/checkpoints", str(tmp_path)
        )
        code = code.replace("[104, 107]", f"[{refund}]")
        from_start = f'"{topic}").option("startingOffsets", "earliest")'
        code = code.replace('"subscribe", "orders")', f'"subscribe", {from_start}')
        code = code.replace('"topic", "totals"', f'"topic", "{output}"')
        code = code.replace('topic="clean"', f'topic="{clean}"').replace("orders-dead", dead)
        exec(compile(code.replace("query.awaitTermination()", ""), str(page), "exec"), names)
        if "query = (" in code:
            started.append(names["query"])
    totals, orders = started
    good = [framed(third, V2, {"id": n, "price": 10.0}) for n in range(4)]
    shop.send(topic, good)
    try:
        totals.processAllAvailable()
        totals.stop()
        shop.send(topic, [good[0][:-3]])
        orders.processAllAvailable()
    finally:
        totals.stop()
        orders.stop()
    assert shop.totals(output, total) == dict.fromkeys(range(4), 12.0)
    assert len(shop.read(clean)) == 4
    assert shop.read(dead) == [good[0][:-3]]
