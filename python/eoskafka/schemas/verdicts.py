"""Whether a value can be decoded, and what it is: as expressions, for the executors."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from eoskafka import _spec
from eoskafka.schemas.frame import PREFIX_BYTES, has_prefix, ident_of, is_framed
from eoskafka.schemas.resolution import (
    END,
    MARK,
    VALUE,
    around,
    in_range,
    skips,
    widened,
    without_logical,
)
from eoskafka.schemas.types import Type, spark_type

if TYPE_CHECKING:
    from pyspark.sql import Column

_TO_THE_END = 2**31 - 1
# Spark makes nulls of what it cannot read, and `MARK` shows it. Nobody but old versions of Spark
# and Hive writes days of the Julian calendar.
_OPTIONS = {"mode": "PERMISSIVE", "datetimeRebaseMode": "CORRECTED"}

UNKNOWN = "EOSKAFKA_UNKNOWN_SCHEMA_ID"
_UNRESOLVABLE = "EOSKAFKA_UNRESOLVABLE_SCHEMA"
_UNDECODABLE = "EOSKAFKA_UNDECODABLE_VALUE"


class Verdict(NamedTuple):
    """When a value cannot be decoded, the reason, and what the message of the error needs."""

    applies: Column
    condition: str
    reason: Column
    values: dict[str, Column]

    def failure(self) -> Column:
        """An error of the connector's, raised by the executor that comes to it."""
        from pyspark.sql import functions as sql

        return sql.raise_error(message(self.condition, {**self.values, "reason": self.reason}))

    def letter(self) -> Column:
        """The reason that a dead letter gives."""
        from pyspark.sql import functions as sql

        return sql.concat(sql.lit(f"{self.condition}: "), self.reason)


def verdicts_of(
    data: Column,
    subject: str,
    known: Sequence[int],
    refused: Mapping[int, str],
    is_read: Column,
) -> tuple[Verdict, ...]:
    """What may be wrong with a value; each one holds if those before it do not.

    No reason depends on what else is registered: a batch that runs again has to make the same dead
    letters.
    """
    from pyspark.sql import functions as sql

    def text(*parts: Column | str) -> Column:
        return sql.concat(*(sql.lit(each) if isinstance(each, str) else each for each in parts))

    ident = ident_of(data)
    return (
        Verdict(
            ~is_framed(data),
            _UNDECODABLE,
            text("it does not begin with the byte 0 and the four bytes of a schema id"),
            {},
        ),
        Verdict(
            ~has_prefix(data, known),
            UNKNOWN,
            text("its schema id ", ident, f" is none of the known ones of {subject}"),
            {"id": ident, "subject": sql.lit(subject)},
        ),
        *(
            Verdict(
                has_prefix(data, [each]),
                _UNRESOLVABLE,
                text(f"its schema, with the id {each} of the subject {subject}, {reason}"),
                {},
            )
            for each, reason in refused.items()
        ),
        Verdict(
            ~is_read,
            _UNDECODABLE,
            text("its bytes are not exactly one value of the schema with the id ", ident),
            {},
        ),
    )


def read(
    data: Column, readable: Mapping[Type, Sequence[int]], reader: Type
) -> tuple[Column, Column]:
    """Whether a value could be read, and the value; a branch for each writer's schema."""
    from pyspark.sql import functions as sql
    from pyspark.sql.avro.functions import from_avro

    # Where a value ends too early or too late, these bytes are not where the mark has to be.
    payload = sql.concat(
        sql.substring(data, PREFIX_BYTES + 1, _TO_THE_END), sql.lit(bytearray(MARK))
    )
    options = _OPTIONS | {"avroSchema": around(widened(reader))}
    chain: Any = sql
    for writer, idents in readable.items():
        whole = _whole(payload, writer) if skips(writer, reader) else payload
        decoded = from_avro(whole, around(writer), options)
        chain = chain.when(has_prefix(data, idents), decoded)
    value = chain[VALUE]
    is_read = sql.coalesce(chain[END] == sql.lit(bytearray(MARK)), sql.lit(False))
    if (is_right := in_range(reader, value)) is not None:
        is_read = is_read & is_right
        value = value.cast(spark_type(reader, quote="`"))
    return is_read, value


def _whole(payload: Column, writer: Type) -> Column:
    """The payload as Spark writes it, if it is exactly one value of the writer's type; else null.

    Avro does not read a field that only the writer has, but skips it. That could accept invalid
    lengths, such as that of a block of an array, or make Avro loop for ever.
    """
    from pyspark.sql import functions as sql
    from pyspark.sql.avro.functions import from_avro, to_avro

    schema = around(without_logical(writer))
    value = from_avro(payload, schema, _OPTIONS)
    return sql.when(value[END] == sql.lit(bytearray(MARK)), to_avro(value, schema))


def message(condition: str, values: Mapping[str, Column]) -> Column:
    """The text of an error of the connector's, from which `eoskafka.failures` makes its class."""
    from pyspark.sql import functions as sql

    parts = re.split(r"<([a-zA-Z]+)>", _spec.conditions()[condition]["message"])
    texts = [values[each] if place % 2 else sql.lit(each) for place, each in enumerate(parts)]
    return sql.concat(sql.lit(f"[{condition}] "), *texts)
