"""Columns that decode and encode values with a schema's id before them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from eoskafka import _spec
from eoskafka.dead_letters import UNDECODABLE
from eoskafka.errors import ConfigurationError
from eoskafka.schemas import jar
from eoskafka.schemas import pin as pins
from eoskafka.schemas.registry import (
    Registered,
    Registry,
    Requests,
    Version,
    requests_of,
    require_version,
)
from eoskafka.schemas.resolution import (
    END,
    MARK,
    VALUE,
    around,
    difference,
    in_range,
    skips,
    widened,
    without_defaults,
    without_logical,
)
from eoskafka.schemas.types import Type, spark_type, text_of

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

# The byte 0, and the schema's id in four.
_PREFIX_BYTES = 5
_TO_THE_END = 2**31 - 1
# Spark makes nulls of what it cannot read, and `MARK` shows it. Nobody but old versions of Spark
# and Hive writes days of the Julian calendar.
_OPTIONS = {"mode": "PERMISSIVE", "datetimeRebaseMode": "CORRECTED"}
_REBASE_ON_WRITE = "spark.sql.avro.datetimeRebaseModeInWrite"

_UNKNOWN = "EOSKAFKA_UNKNOWN_SCHEMA_ID"
_UNRESOLVABLE = "EOSKAFKA_UNRESOLVABLE_SCHEMA"
_UNDECODABLE = "EOSKAFKA_UNDECODABLE_VALUE"
_OTHER_TYPE = "EOSKAFKA_ENCODED_TYPE"


class _Verdict(NamedTuple):
    """When a value cannot be decoded, the reason, and what the message of the error needs."""

    applies: Column
    condition: str
    reason: Column
    values: dict[str, Column]

    def failure(self) -> Column:
        """An error of the connector's, raised by the executor that comes to it."""
        from pyspark.sql import functions as sql

        return sql.raise_error(_message(self.condition, {**self.values, "reason": self.reason}))

    def letter(self) -> Column:
        """The reason that a dead letter gives."""
        from pyspark.sql import functions as sql

        return sql.concat(sql.lit(f"{self.condition}: "), self.reason)


class _Judged(NamedTuple):
    """A column of values: when one is null, its errors in their order, and else the value."""

    is_null: Column
    verdicts: tuple[_Verdict, ...]
    value: Column


def decode(
    column: Column | str,
    registry: Registry,
    subject: str,
    *,
    version: Version | None = None,
    pin: str | None = None,
    ids: Sequence[int] | None = None,
) -> Column:
    """The values of a column, which begin with the id of their schema. Null stays null.

    The result always has the type of one schema, the reader's: the version of the subject that
    `version` and `pin` choose. Each value is decoded with the schema of its own id, the writer's,
    and resolved to the reader's. The ids are those that the subject has when the column is made,
    also of softly deleted versions. A value that cannot be decoded fails the query, before its task
    commits, with a RecordError:

    - EOSKAFKA_UNKNOWN_SCHEMA_ID: its id is another one. A program that makes the column again asks
      for the ids again.
    - EOSKAFKA_UNRESOLVABLE_SCHEMA: the schema of its id is not supported, or cannot be resolved to
      the reader's.
    - EOSKAFKA_UNDECODABLE_VALUE: it has no id, or its bytes are not a value of the schema of its
      id, and nothing else.

    Use `try_decode` for dead letters.

    Args:
        column: binary; `key` or `value` of a source.
        registry: asked on the driver, now.
        subject: in the registry, such as `orders-value`.
        version: of the reader's schema: an integer from 1, or `latest` for the newest one now.
        pin: a path beside the checkpoint. The first column that is made with it writes there which
            schema it has: subject, version, id and hash. Each later one takes this version, and is
            refused if the program asks for another one or the registry has another schema there.
            Without `version`, the first one takes the latest version.
        ids: the schema ids of the subject that are decoded, instead of all.

    Raises:
        ConfigurationError: the subject, a version or an id is not in the registry; the reader's
            schema, or one that `ids` names, is not supported or cannot be resolved; `pin` has
            another schema; the session lacks Spark's Avro functions or limits, is one of Spark
            Connect, or runs on a Spark without spark-avro; or the arguments do not fit together.
        AuthorizationError: the registry refuses this user.
        UnreachableError: the registry does not answer.
    """
    from pyspark.sql import functions as sql

    judged = _judged(column, registry, subject, version, pin, ids)
    made = sql.when(judged.is_null, sql.lit(None))
    for each in judged.verdicts:
        made = made.when(each.applies, each.failure())
    return made.otherwise(judged.value)


def try_decode(
    column: Column | str,
    registry: Registry,
    subject: str,
    *,
    version: Version | None = None,
    pin: str | None = None,
    ids: Sequence[int] | None = None,
    unknown_ids: Literal["fail", "error"] = "fail",
) -> Column:
    """As `decode`, with an error for a value that cannot be decoded instead of a failure.

    The result is a struct with two fields, as that of a function with `eoskafka.guard`: `value`,
    which is null if there is an error, and `error`, which otherwise is null. Give `error` to
    `eoskafka.with_dead_letters`, which makes a dead letter of such a row as long as the struct is
    among its columns. A query without that function that uses `value` alone has a null there.

    Args:
        unknown_ids: what a value does whose schema id is not known. With `fail` the query fails, as
            with `decode`, because the program would decode the value when it runs again, also if
            the query uses only one of the two fields. With `error` it is an error too.

    The other arguments, and what is raised, are those of `decode`.
    """
    from pyspark.sql import functions as sql

    if unknown_ids not in ("fail", "error"):
        raise ConfigurationError(f"unknown_ids is {unknown_ids!r}: it must be 'fail' or 'error'")
    judged = _judged(column, registry, subject, version, pin, ids)
    value = error = sql.when(judged.is_null, sql.lit(None))
    for each in judged.verdicts:
        if each.condition == _UNKNOWN and unknown_ids == "fail":
            # Spark computes the field that a query uses, and not the other one.
            error = error.when(each.applies, each.failure())
            value = value.when(each.applies, each.failure())
        else:
            error = error.when(each.applies, each.letter())
            value = value.when(each.applies, sql.lit(None))
    value = value.otherwise(judged.value)
    marked = error.cast("string").alias("error", metadata={UNDECODABLE: True})
    return sql.struct(value.alias("value"), marked)


def encode(
    column: Column | str,
    registry: Registry,
    subject: str,
    *,
    version: Version | None = None,
    pin: str | None = None,
    schema: str | None = None,
    register: bool = False,
) -> Column:
    """The values of a column in the wire format, for `value` or `key` of a sink. Null stays null.

    Give `version`, `pin` or both, or `schema`. A column of another type than the schema's fails the
    query with EOSKAFKA_ENCODED_TYPE, and a null in a field that allows none with Spark's error.

    Args:
        column: of exactly the type of the schema, with its fields in the same order.
        registry: asked on the driver, now.
        subject: in the registry, such as `orders-value`.
        version: of the subject: an integer from 1, or `latest`.
        pin: as for `decode`.
        schema: the text of an Avro schema, which the subject must have.
        register: make `schema` the subject's newest version if the subject does not have it.
            Nothing is registered otherwise.

    Raises:
        ConfigurationError: the subject or the version is not in the registry, or `schema` is not
            and `register` is not set; the registry refuses to register it; the schema is not
            supported; the session rebases dates when it writes Avro; or as for `decode`.
        AuthorizationError: the registry refuses this user.
        UnreachableError: the registry does not answer.
    """
    from pyspark.sql import functions as sql
    from pyspark.sql.avro.functions import to_avro

    chosen, is_pinned = _chosen_to_write(registry, subject, version, pin, schema, register)
    kind = chosen.supported()
    given = _column(column)
    wanted = spark_type(kind)
    values = {
        "given": sql.typeof(given),
        "wanted": sql.lit(wanted),
        "id": sql.lit(str(chosen.id)),
        "subject": sql.lit(subject),
    }
    encoded = sql.concat(sql.lit(_prefix(chosen.id)), to_avro(given, text_of(kind)))
    made = (
        sql.when(given.isNull(), sql.lit(None))
        .when(sql.typeof(given) != wanted, sql.raise_error(_message(_OTHER_TYPE, values)))
        .otherwise(encoded)
    )
    if pin is not None and not is_pinned:
        pins.write(chosen, pin)
    return made


def _chosen_to_write(
    registry: Registry,
    subject: str,
    version: Version | None,
    pin: str | None,
    schema: str | None,
    register: bool,
) -> tuple[Registered, bool]:
    if (schema is None) == (version is None and pin is None):
        raise ConfigurationError(
            "give `version`, `pin` or both, or else `schema`: which schema are the values to have?"
        )
    if register and schema is None:
        raise ConfigurationError("`register` needs the text of a schema in `schema`")
    spark = _session()
    if str(spark.conf.get(_REBASE_ON_WRITE)).upper() == "LEGACY":
        raise ConfigurationError(
            f"{_REBASE_ON_WRITE} is LEGACY, so Spark would change old dates and timestamps. "
            "Nothing was written. Set it to CORRECTED"
        )
    with requests_of(registry) as asked:
        if schema is None:
            return _chosen(asked, subject, version, pin)
        found = asked.register(subject, schema) if register else asked.find(subject, schema)
        return found, False


def id_of(column: Column | str) -> Column:
    """The schema id before a value, as bigint; null if there is none.

    If a topic has records of several subjects, it says which `decode` has to read a record:
    `when(id_of(v).isin(ids_of_b), decode_b).otherwise(decode_a)`. So every other id comes to a
    `decode`, which fails on an id that it does not know. Do not filter by ids: a filter drops the
    records of a new id, and tombstones. It asks no registry.
    """
    from pyspark.sql import functions as sql

    data = _column(column).cast("binary")
    return sql.when(_is_framed(data), _ident(data).cast("bigint"))


def _session() -> SparkSession:
    from pyspark.sql import SparkSession

    spark = SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
    if not hasattr(spark, "_jvm"):
        raise ConfigurationError(
            "eoskafka.schemas does not run with Spark Connect: a client cannot see whether the "
            "server's JVMs have the limits that keep a corrupt value from taking all memory. "
            "Nothing was read or written; use a classic session"
        )
    jar.require()
    return spark


def _judged(
    column: Column | str,
    registry: Registry,
    subject: str,
    version: Version | None,
    pin: str | None,
    ids: Sequence[int] | None,
) -> _Judged:
    _session()
    with requests_of(registry) as asked:
        chosen, is_pinned = _chosen(asked, subject, version, pin)
        reader = chosen.supported()
        writers = _writers(asked, subject, ids)
    refused: dict[int, str] = {}
    readable: dict[Type, list[int]] = {}
    for each in writers:
        if each.type is None:
            refused[each.id] = f"is not supported: {each.refusal}"
        elif (found := difference(each.type, reader)) is not None:
            refused[each.id] = f"differs: {found}"
        else:
            readable.setdefault(without_defaults(each.type), []).append(each.id)
    if ids is not None and refused:
        reasons = "; ".join(f"{ident}: {reason}" for ident, reason in refused.items())
        raise ConfigurationError(
            f"schemas of the subject {subject} that `ids` names cannot be read with the reader's "
            f"schema. Nothing was read or written; leave them out. {reasons}"
        )
    if not readable:
        raise ConfigurationError(
            f"no version of the subject {subject} can be read with the reader's schema. Nothing "
            "was read or written; choose another `version`"
        )
    data = _column(column).cast("binary")
    is_read, value = _read(data, readable, reader)
    known = [each.id for each in writers]
    verdicts = _verdicts(data, subject, known, refused, is_read)
    if pin is not None and not is_pinned:
        pins.write(chosen, pin)
    return _Judged(data.isNull(), verdicts, value)


def _verdicts(
    data: Column,
    subject: str,
    known: Sequence[int],
    refused: Mapping[int, str],
    is_read: Column,
) -> tuple[_Verdict, ...]:
    """What may be wrong with a value; each one holds if those before it do not.

    No reason depends on what else is registered: a batch that runs again has to make the same dead
    letters.
    """
    from pyspark.sql import functions as sql

    def text(*parts: Column | str) -> Column:
        return sql.concat(*(sql.lit(each) if isinstance(each, str) else each for each in parts))

    ident = _ident(data)
    return (
        _Verdict(
            ~_is_framed(data),
            _UNDECODABLE,
            text("it does not begin with the byte 0 and the four bytes of a schema id"),
            {},
        ),
        _Verdict(
            ~_has_prefix(data, known),
            _UNKNOWN,
            text("its schema id ", ident, f" is none of the known ones of {subject}"),
            {"id": ident, "subject": sql.lit(subject), "known": sql.lit(str(len(known)))},
        ),
        *(
            _Verdict(
                _has_prefix(data, [each]),
                _UNRESOLVABLE,
                text(f"its schema, with the id {each} of the subject {subject}, {reason}"),
                {},
            )
            for each, reason in refused.items()
        ),
        _Verdict(
            ~is_read,
            _UNDECODABLE,
            text("its bytes are not exactly one value of the schema with the id ", ident),
            {},
        ),
    )


def _writers(asked: Requests, subject: str, ids: Sequence[int] | None) -> list[Registered]:
    found = sorted(asked.all_of(subject), key=lambda each: each.id)
    if ids is None:
        return found
    known = {each.id for each in found}
    missing = [each for each in ids if type(each) is not int or each not in known]
    if missing or not ids:
        raise ConfigurationError(
            f"`ids` names no schema ids, or some that the subject {subject} does not have: "
            f"{missing}. Nothing was read or written"
        )
    return [each for each in found if each.id in ids]


def _chosen(
    asked: Requests, subject: str, version: Version | None, pin: str | None
) -> tuple[Registered, bool]:
    """The schema, and whether the pin names it already."""
    if version is not None:
        require_version(subject, version)
    if pin is not None and (found := pins.look_up(asked, subject, version, pin)) is not None:
        return found, True
    if version is None and pin is None:
        raise ConfigurationError(
            "give `version`, `pin` or both: a restart must find the same schema again, or it "
            "would decode or encode the records of a failed batch in another way. "
            "version='latest' takes the newest one at each start"
        )
    return asked.version(subject, version or "latest"), False


def _read(
    data: Column, readable: Mapping[Type, Sequence[int]], reader: Type
) -> tuple[Column, Column]:
    """Whether a value could be read, and the value; a branch for each writer's schema."""
    from pyspark.sql import functions as sql
    from pyspark.sql.avro.functions import from_avro

    # Where a value ends too early or too late, these bytes are not where the mark has to be.
    payload = sql.concat(
        sql.substring(data, _PREFIX_BYTES + 1, _TO_THE_END), sql.lit(bytearray(MARK))
    )
    options = _OPTIONS | {"avroSchema": around(widened(reader))}
    chain: Any = sql
    for writer, idents in readable.items():
        whole = _whole(payload, writer) if skips(writer, reader) else payload
        read = from_avro(whole, around(writer), options)
        chain = chain.when(_has_prefix(data, idents), read)
    value = chain[VALUE]
    is_read = sql.coalesce(chain[END] == sql.lit(bytearray(MARK)), sql.lit(False))
    if (is_right := in_range(reader, value)) is not None:
        is_read = is_read & is_right
        value = value.cast(spark_type(reader, quote="`"))
    return is_read, value


def _whole(payload: Column, writer: Type) -> Column:
    """The payload as Spark writes it, if it is exactly one value of the writer's type; else null.

    Avro does not read a field that only the writer has, but skips it: some lengths that are no
    lengths, such as that of a block of an array, would then be taken, or make Avro loop for ever.
    """
    from pyspark.sql import functions as sql
    from pyspark.sql.avro.functions import from_avro, to_avro

    schema = around(without_logical(writer))
    read = from_avro(payload, schema, _OPTIONS)
    return sql.when(read[END] == sql.lit(bytearray(MARK)), to_avro(read, schema))


def _message(condition: str, values: Mapping[str, Column]) -> Column:
    """The text of an error of the connector's, from which `eoskafka.failures` makes its class."""
    from pyspark.sql import functions as sql

    parts = re.split(r"<([a-zA-Z]+)>", _spec.conditions()[condition]["message"])
    texts = [values[each] if place % 2 else sql.lit(each) for place, each in enumerate(parts)]
    return sql.concat(sql.lit(f"[{condition}] "), *texts)


def _prefix(ident: int) -> bytearray:
    return bytearray(b"\0" + ident.to_bytes(4, "big"))


def _has_prefix(data: Column, idents: Sequence[int]) -> Column:
    from pyspark.sql import functions as sql

    return sql.substring(data, 1, _PREFIX_BYTES).isin([_prefix(each) for each in idents])


def _is_framed(data: Column) -> Column:
    from pyspark.sql import functions as sql

    is_long = sql.octet_length(data) >= _PREFIX_BYTES
    return is_long & (sql.substring(data, 1, 1) == sql.lit(bytearray(b"\0")))


def _ident(data: Column) -> Column:
    """The id as text; an unsigned number of four bytes."""
    from pyspark.sql import functions as sql

    return sql.conv(sql.hex(sql.substring(data, 2, 4)), 16, 10)


def _column(of: Column | str) -> Column:
    from pyspark.sql import functions as sql

    return sql.col(of) if isinstance(of, str) else of
