"""Columns that decode and encode values with a schema's id before them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from eoskafka.dead_letters import UNDECODABLE
from eoskafka.errors import ConfigurationError
from eoskafka.schemas import pin as pins
from eoskafka.schemas.choice import choose, choose_to_write, require_session, writers_of
from eoskafka.schemas.frame import ident_of, is_framed, prefix_of
from eoskafka.schemas.registry import Registry, Version, requests_of
from eoskafka.schemas.resolution import difference, without_defaults
from eoskafka.schemas.types import Type, spark_type, text_of
from eoskafka.schemas.verdicts import UNKNOWN, Verdict, message, read, verdicts_of

if TYPE_CHECKING:
    from pyspark.sql import Column

_OTHER_TYPE = "EOSKAFKA_ENCODED_TYPE"


class _Judged(NamedTuple):
    """A column of values: when one is null, its errors in their order, and else the value."""

    is_null: Column
    verdicts: tuple[Verdict, ...]
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
    - EOSKAFKA_UNDECODABLE_VALUE: it has no id, or its other bytes are not exactly one value of the
      schema of its id.

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
        unknown_ids: what happens to a value whose schema id is not known. With `fail` the query
            fails, as with `decode`, even if it uses only one of the two fields, because the program
            would decode the value after a restart. With `error` the value gets an error, too.

    The other arguments, and what is raised, are those of `decode`.
    """
    from pyspark.sql import functions as sql

    if unknown_ids not in ("fail", "error"):
        raise ConfigurationError(f"unknown_ids is {unknown_ids!r}: it must be 'fail' or 'error'")
    judged = _judged(column, registry, subject, version, pin, ids)
    value = error = sql.when(judged.is_null, sql.lit(None))
    for each in judged.verdicts:
        if each.condition == UNKNOWN and unknown_ids == "fail":
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

    chosen, is_pinned = choose_to_write(registry, subject, version, pin, schema, register)
    kind = chosen.supported()
    given = _column(column)
    wanted = spark_type(kind)
    values = {
        "given": sql.typeof(given),
        "wanted": sql.lit(wanted),
        "id": sql.lit(str(chosen.id)),
        "subject": sql.lit(subject),
    }
    encoded = sql.concat(sql.lit(prefix_of(chosen.id)), to_avro(given, text_of(kind)))
    made = (
        sql.when(given.isNull(), sql.lit(None))
        .when(sql.typeof(given) != wanted, sql.raise_error(message(_OTHER_TYPE, values)))
        .otherwise(encoded)
    )
    if pin is not None and not is_pinned:
        pins.write(chosen, pin)
    return made


def id_of(column: Column | str) -> Column:
    """The schema id before a value, as bigint; null if there is none.

    If a topic has records of several subjects, it says which `decode` has to read a record:
    `when(id_of(v).isin(ids_of_b), decode_b).otherwise(decode_a)`. So every other id comes to a
    `decode`, which fails on an id that it does not know. Do not filter by ids: a filter drops the
    records of a new id, and tombstones. It asks no registry.
    """
    from pyspark.sql import functions as sql

    data = _column(column).cast("binary")
    return sql.when(is_framed(data), ident_of(data).cast("bigint"))


def _judged(
    column: Column | str,
    registry: Registry,
    subject: str,
    version: Version | None,
    pin: str | None,
    ids: Sequence[int] | None,
) -> _Judged:
    require_session()
    with requests_of(registry) as asked:
        chosen, is_pinned = choose(asked, subject, version, pin)
        reader = chosen.supported()
        writers = writers_of(asked, subject, ids)
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
    is_read, value = read(data, readable, reader)
    known = [each.id for each in writers]
    verdicts = verdicts_of(data, subject, known, refused, is_read)
    if pin is not None and not is_pinned:
        pins.write(chosen, pin)
    return _Judged(data.isNull(), verdicts, value)


def _column(of: Column | str) -> Column:
    from pyspark.sql import functions as sql

    return sql.col(of) if isinstance(of, str) else of
