"""Rows that fail go to another topic, in the transaction of the rows that are right.

The sink writes the rows of a batch, whatever their topics, in the transactions that also commit the
source's offsets. So a dead letter needs no transaction of its own: it is one more row.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from eoskafka.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# Before the name of each header that a dead letter has.
PREFIX = "eoskafka.dead-letter."
REASON_LIMIT = 1_000
# In the metadata of the column `topic`; io.eoskafka.sink.OutputColumns has the same.
MARK = "eoskafka.dead-letters"
# In the metadata of a column or field: each row with an error there becomes a dead letter.
UNDECODABLE = "eoskafka.undecodable"
_ERROR = "eoskafka_error"

# Of a record, as both clients of Python have them; librdkafka's says None where there is none.
Headers: TypeAlias = "Iterable[tuple[str, bytes | None]] | None"

_SOURCE_COLUMNS = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
}
_HEADERS = "array<struct<key:string,value:binary>>"
_TOPIC_NAME = "[a-zA-Z0-9._-]{1,249}"
# The most bytes that Kafka's format adds to a record that is alone in its batch, and to each header
# (KIP-98 has the format).
_OVERHEAD, _HEADER_OVERHEAD = 97, 10


@dataclass(frozen=True)
class Origin:
    """What the headers of a dead letter say.

    Attributes:
        reason: why the row was wrong.
        query: the name that the query gave; empty if it gave none.
        topic: of the source's record; empty if the headers do not say.
        partition: of the source's record; -1 if the headers do not say.
        offset: of the source's record; -1 if the headers do not say.
        timestamp_ms: of the source's record; -1 if the headers do not say.
    """

    reason: str
    query: str
    topic: str
    partition: int
    offset: int
    timestamp_ms: int

    @classmethod
    def of(cls, headers: Headers) -> Origin:
        """What these say."""
        own = {
            name.removeprefix(PREFIX): (value or b"").decode(errors="replace")
            for name, value in headers or ()
            if name.startswith(PREFIX)
        }

        def number(name: str, below: int = 2**63) -> int:
            text = own.get(name, "")
            # Anybody can write such a header, and Python refuses to read thousands of digits.
            is_number = text.isascii() and text.isdigit() and len(text) < 20
            return int(text) if is_number and int(text) < below else -1

        return cls(
            reason=own.get("reason", ""),
            query=own.get("query", ""),
            topic=own.get("topic", ""),
            partition=number("partition", 2**31),
            offset=number("offset"),
            timestamp_ms=number("timestamp"),
        )


def with_dead_letters(
    rows: DataFrame,
    *,
    error: Column | str,
    topic: Column | str,
    dead_letter_topic: str,
    value: Column | str,
    key: Column | str = "key",
    headers: Column | str | None = None,
    partition: Column | str | None = None,
    max_bytes: int | None = None,
    query: str = "",
) -> DataFrame:
    """The rows to write: those that are right, and a dead letter for each one that is not.

    `rows` must still have the columns of the source: `key`, `value`, `topic`, `partition`, `offset`
    and `timestamp`, as it returned them. A dead letter has key and value of the source's record,
    unchanged, and headers that say why and from where. If there is a column `headers` (the source's
    option `includeHeaders`), it has those too. docs/dead-letters.md lists the headers.

    Write the result with `format("eoskafka")` and without the option `topic`, which would win over
    the column. Everything is an expression of columns, so it changes neither the transaction scope
    of a query nor whether it can run in real-time mode.

    Args:
        rows: rows of a source of Kafka, with further columns.
        error: the column that says why a row is wrong. A row is right if this is null, and if
            each result of `eoskafka.schemas.try_decode` among the columns of `rows` has no error.
        topic: the topic of rows that are right: its name, or a column. A row is wrong if this
            column is null, is not a valid topic name, or names the dead letters' topic.
        dead_letter_topic: the name of the topic for the other rows, on the sink's cluster.
        value: the value of a record that is right; string or binary. For a row with an error,
            this, `key` and `headers` are not computed, unless they use a Python function.
        key: its key; string or binary.
        headers: its headers; by default it has none.
        partition: its partition; by default its key decides.
        max_bytes: the largest record that is right, in bytes before compression. This includes what
            Kafka's format adds, so it may be as large as the topic's `max.message.bytes`, or 1 %
            smaller if the sink or the topic compresses. A larger record is wrong. By default the
            size is not checked.
        query: a name for the header `eoskafka.dead-letter.query`.

    Raises:
        ConfigurationError: a column is missing, has another type, or has the name that this
            function gives to the error; or a topic name is not valid.
    """
    from pyspark.sql import functions as sql

    _require_topic_names(topic, dead_letter_topic)
    source = _source_columns(rows)
    undecodable = {f"undecodable_{i}": each for i, each in enumerate(_undecodable(rows))}
    # Computed only once: if it were computed again, the error could differ.
    with_error = rows.withColumn(_ERROR, _column(error))
    has_no_error = sql.col(_ERROR).isNull()
    for each in undecodable.values():
        has_no_error = has_no_error & each.isNull()

    def made(of: Column | str) -> Column:
        """An expression that is null for a row with an error, because Spark could fail on it."""
        return sql.when(has_no_error, _column(of))

    chosen = {
        "right_error": sql.col(_ERROR),
        "right_topic": sql.lit(topic) if isinstance(topic, str) else topic,
        "right_key": made(key),
        "right_value": made(value),
        "right_headers": sql.lit(None).cast(_HEADERS) if headers is None else made(headers),
        "right_partition": sql.lit(None).cast("int") if partition is None else _column(partition),
    }
    both = with_error.select(
        *(sql.col(name) for name in source),
        *(each.alias(name) for name, each in (chosen | undecodable).items()),
    )
    _require_types(both)
    causes = [sql.substring(each, 1, REASON_LIMIT) for each in ("right_error", *undecodable)]
    if not isinstance(topic, str):
        causes += _wrong_topics(dead_letter_topic)
    if max_bytes is not None:
        causes.append(_too_large(max_bytes))
    judged = both.withColumn("why", sql.coalesce(*causes))

    is_right = sql.col("why").isNull()

    def either(right: Column, letter: Column) -> Column:
        return sql.when(is_right, right).otherwise(letter)

    columns = [
        either(sql.col("right_key").cast("binary"), sql.col("key")).alias("key"),
        either(sql.col("right_value").cast("binary"), sql.col("value")).alias("value"),
        either(sql.col("right_headers"), _letter_headers(source, query)).alias("headers"),
        either(sql.col("right_topic"), sql.lit(dead_letter_topic)).alias(
            "topic", metadata={MARK: dead_letter_topic}
        ),
    ]
    if partition is not None:
        columns.append(sql.when(is_right, sql.col("right_partition")).alias("partition"))
    return judged.select(*columns)


def _require_topic_names(topic: Column | str, dead_letter_topic: str) -> None:
    if isinstance(topic, str) and topic == dead_letter_topic:
        raise ConfigurationError(f"the dead letters' topic is the topic of the rows: {topic}")
    for name in (dead_letter_topic, *([topic] if isinstance(topic, str) else [])):
        if not re.fullmatch(_TOPIC_NAME, name) or name in (".", ".."):
            raise ConfigurationError(f"no topic can have the name {name!r}")


def _source_columns(rows: DataFrame) -> dict[str, str]:
    """The columns of the source, with their types."""
    found = _types(rows)
    if taken := [name for name in found if name.lower() == _ERROR]:
        raise ConfigurationError(
            f"the rows have a column {taken[0]}, and with_dead_letters adds one of this name: "
            "rename yours"
        )
    source = {**_SOURCE_COLUMNS, **({"headers": _HEADERS} if "headers" in found else {})}
    for name, needed in source.items():
        if found.get(name) != needed:
            raise ConfigurationError(
                f"a dead letter needs the source's column {name} ({needed}), and the rows have "
                + (f"one of type {found[name]}" if name in found else "no such column")
                + ": give computed columns other names, and drop columns only after "
                "with_dead_letters"
            )
    return source


def _wrong_topics(dead_letter_topic: str) -> list[Column]:
    """Why a row cannot be written to the topic that its column names."""
    from pyspark.sql import functions as sql

    topic = sql.col("right_topic")
    is_possible = topic.rlike(rf"^{_TOPIC_NAME}\z") & ~topic.isin(".", "..")
    return [
        sql.when(topic.isNull(), sql.lit("the topic is null")),
        sql.when(~is_possible, sql.lit("no topic can have the name of its topic")),
        # The row would be among the dead letters without their headers.
        sql.when(
            topic == dead_letter_topic,
            sql.lit("its topic is that of the dead letters"),
        ),
    ]


def _too_large(max_bytes: int) -> Column:
    from pyspark.sql import functions as sql

    size = _size(sql.col("right_key"), sql.col("right_value"), sql.col("right_headers"))
    text = sql.concat(
        sql.lit("the record would have "),
        size.cast("string"),
        sql.lit(f" of {max_bytes} bytes"),
    )
    return sql.when(size > max_bytes, text)


def _letter_headers(source: Mapping[str, str], query: str) -> Column:
    from pyspark.sql import functions as sql

    own = sql.array(*_own_headers(query))
    if "headers" not in source:
        return own
    # If the record was a dead letter before, those headers describe another record's source.
    kept = sql.filter("headers", lambda header: ~header["key"].startswith(PREFIX))
    return sql.concat(sql.coalesce(kept, sql.array().cast(_HEADERS)), own)


def _column(given: Column | str) -> Column:
    from pyspark.sql.functions import col

    return col(given) if isinstance(given, str) else given


def _types(rows: DataFrame) -> dict[str, str]:
    return {field.name: field.dataType.simpleString() for field in rows.schema.fields}


def _undecodable(rows: DataFrame) -> list[Column]:
    """The errors of values that could not be decoded, whatever the caller's `error` looks at."""
    from pyspark.sql import functions as sql
    from pyspark.sql.types import StructType

    found = []
    for field in rows.schema.fields:
        inner = field.dataType.fields if isinstance(field.dataType, StructType) else []
        column = sql.col(f"`{field.name.replace('`', '``')}`")
        if UNDECODABLE in field.metadata:
            found.append(column)
        found += [column[each.name] for each in inner if UNDECODABLE in each.metadata]
    return found


def _require_types(both: DataFrame) -> None:
    found = _types(both)
    for name, fits in (
        ("error", ("string", "void")),
        ("topic", ("string",)),
        ("key", ("string", "binary", "void")),
        ("value", ("string", "binary", "void")),
        ("headers", (_HEADERS,)),
        ("partition", ("int",)),
    ):
        # A collation is part of the name of a type.
        if (kind := found[f"right_{name}"]).split(" ")[0] not in fits:
            raise ConfigurationError(
                f"{name} is of type {kind}, and must be {' or '.join(fits).replace(' or void', '')}"
                + (": null for a valid row, and otherwise the reason" if name == "error" else "")
            )


def _own_headers(query: str) -> list[Column]:
    from pyspark.sql import functions as sql

    def header(name: str, text: Column) -> Column:
        return sql.struct(
            sql.lit(PREFIX + name).alias("key"),
            text.cast("string").cast("binary").alias("value"),
        )

    return [
        header("reason", sql.col("why")),
        header("topic", sql.col("topic")),
        header("partition", sql.col("partition")),
        header("offset", sql.col("offset")),
        header("timestamp", sql.unix_millis("timestamp")),
        *([header("query", sql.lit(query))] if query else []),
    ]


def _size(key: Column, value: Column, headers: Column) -> Column:
    from pyspark.sql import functions as sql

    def length(of: Column) -> Column:
        return sql.coalesce(sql.octet_length(of).cast("bigint"), sql.lit(0).cast("bigint"))

    of_headers = sql.aggregate(
        sql.coalesce(headers, sql.array().cast(_HEADERS)),
        sql.lit(0).cast("bigint"),
        lambda size, each: size + length(each["key"]) + length(each["value"]) + _HEADER_OVERHEAD,
    )
    return length(key) + length(value) + of_headers + _OVERHEAD
