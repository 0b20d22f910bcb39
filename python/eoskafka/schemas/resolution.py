"""Whether a value of one Avro schema can be read as one of another, and what Spark needs for it.

Avro's specification calls the two the writer's and the reader's schema. Avro's library compares
neither logical types nor precision and scale, and Spark makes nulls of what cannot be resolved. So
both are compared here, before any value is decoded.
"""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from eoskafka.schemas.types import (
    MAX_PRECISION,
    NULLABLE,
    Field,
    Logical,
    Type,
    digits,
    place,
    text_of,
)

if TYPE_CHECKING:
    from pyspark.sql import Column

VALUE, END = "value", "end"
# Appended to each value; the writer's schema gets a field for it. It is read correctly only if the
# value ended where its bytes did. Any other bytes would do.
MARK = bytes.fromhex("9f1d6a0be34c4b7d8a52c7f0133e68d5")
# No schema's type can get this name from `text_of`.
_AROUND = "eoskafka_value"

# Without a change of any value: a float cannot hold each int, nor a double each long.
_PROMOTIONS = {("int", "long"), ("int", "double"), ("float", "double")}
# Of a decimal whose digits fit, Spark takes 64 bits, whatever comes before them.
_NARROW, _LONG_BYTES = 18, 8


def without_defaults(of: Type) -> Type:
    """The type without defaults: of a writer's they mean nothing, and Avro may refuse them."""
    if of.item is not None:
        return replace(of, item=without_defaults(of.item))
    fields = (Field(each.name, without_defaults(each.type)) for each in of.fields)
    return replace(of, fields=tuple(fields))


def without_logical(of: Type) -> Type:
    """The type without logical types: Spark then reads and writes the same bytes."""
    if of.item is not None:
        return replace(of, item=without_logical(of.item))
    fields = (replace(each, type=without_logical(each.type)) for each in of.fields)
    return replace(of, fields=tuple(fields), logical=None)


def skips(writer: Type, reader: Type) -> bool:
    """Whether the writer's type has a field that is not read as the reader's type."""
    if reader.kind == NULLABLE:
        return skips(writer.inner() if writer.kind == NULLABLE else writer, reader.inner())
    if reader.item is not None:
        return skips(writer.inner(), reader.inner())
    ours = {each.name: each.type for each in reader.fields}
    return any(each.name not in ours or skips(each.type, ours[each.name]) for each in writer.fields)


def around(of: Type) -> str:
    """The text of a schema for a value of `of` with `MARK` behind it."""
    fields = [
        {"name": VALUE, "type": json.loads(text_of(of))},
        {"name": END, "type": {"type": "fixed", "name": "eoskafka_end", "size": len(MARK)}},
    ]
    return json.dumps({"type": "record", "name": _AROUND, "fields": fields})


def difference(writer: Type, reader: Type, path: str = "") -> str | None:
    """Why values of the writer's type cannot be read as the reader's; None if they can."""
    if reader.kind == NULLABLE:
        inner = writer.inner() if writer.kind == NULLABLE else writer
        return difference(inner, reader.inner(), path)
    where = place(path)
    if writer.kind == NULLABLE:
        return f"{where} may be null in the writer's schema, and not in the reader's"
    if (writer.kind, reader.kind) in _PROMOTIONS and writer.logical == reader.logical:
        return None
    if (writer.kind, writer.name, writer.size, writer.logical) != (
        reader.kind,
        reader.name,
        reader.size,
        reader.logical,
    ):
        sizes = f" of {writer.size} and {reader.size} bytes" if writer.size != reader.size else ""
        return (
            f"{where} is {writer} in the writer's schema and {reader} in the reader's{sizes}, and "
            "eoskafka does not convert the one to the other"
        )
    if reader.kind == "record":
        return _of_records(writer, reader, path)
    if reader.kind == "enum":
        missing = [each for each in writer.symbols if each not in reader.symbols]
        names = ", ".join(missing)
        return f"{where} has no symbol {names} in the reader's schema" if missing else None
    if reader.kind == "array":
        return difference(writer.inner(), reader.inner(), f"{path}[]")
    if reader.kind == "map":
        return difference(writer.inner(), reader.inner(), f"{path}{{}}")
    return None


def _of_records(writer: Type, reader: Type, path: str) -> str | None:
    theirs = {each.name: each for each in writer.fields}
    for field in reader.fields:
        inside = f"{path}.{field.name}".lstrip(".")
        if field.name in theirs:
            found = difference(theirs[field.name].type, field.type, inside)
        elif field.default is None:
            found = f"the writer's schema lacks {place(inside)}, which has no default"
        else:
            found = wrong_default(field, inside)
        if found is not None:
            return found
    return None


def wrong_default(field: Field, path: str) -> str | None:
    """What is wrong with a default: Avro's library looks at it only when it needs the default."""
    assert field.default is not None
    if _fits(field.type, json.loads(field.default)):
        return None
    return f"{place(path)} has the default {field.default}, which is not of its type {field.type}"


def _fits(of: Type, value: Any) -> bool:
    if of.kind == NULLABLE:
        # Of a union, a default is of the first branch.
        return value is None if of.null_first else _fits(of.inner(), value)
    if of.kind == "record":
        return isinstance(value, dict) and all(
            _fits(each.type, value[each.name])
            if each.name in value
            else each.default is not None and wrong_default(each, "") is None
            for each in of.fields
        )
    if of.kind == "array":
        return isinstance(value, list) and all(_fits(of.inner(), each) for each in value)
    if of.kind == "map":
        return isinstance(value, dict) and all(_fits(of.inner(), v) for v in value.values())
    if of.kind in ("int", "long"):
        bits = 31 if of.kind == "int" else 63
        return type(value) is int and -(2**bits) <= value < 2**bits
    if of.kind in ("float", "double"):
        return type(value) in (int, float)
    if of.kind == "boolean":
        return isinstance(value, bool)
    if not isinstance(value, str):
        return False
    if of.kind == "enum":
        return value in of.symbols
    if of.kind == "string":
        return True
    # Bytes are characters up to 255 in a default.
    is_bytes = all(ord(each) < 256 for each in value)
    return is_bytes and (of.kind == "bytes" or len(value) == of.size) and _is_number(of, value)


def _is_number(of: Type, value: str) -> bool:
    if of.logical is None:
        return True
    number = int.from_bytes(value.encode("latin-1"), "big", signed=True)
    return value != "" and abs(number) < 10**of.logical.precision


def widened(of: Type) -> Type:
    """The type with room in its decimals for each number that its bytes can be."""
    if of.item is not None:
        return replace(of, item=widened(of.item))
    if of.kind == "record":
        fields = (replace(each, type=widened(each.type)) for each in of.fields)
        return replace(of, fields=tuple(fields))
    if not _is_narrow(of):
        return of
    assert of.logical is not None
    room = MAX_PRECISION if of.kind == "bytes" else min(MAX_PRECISION, digits(of.size))
    return replace(of, logical=Logical("decimal", room, of.logical.scale))


def _is_narrow(of: Type) -> bool:
    return (
        of.logical is not None
        and of.logical.name == "decimal"
        and of.logical.precision <= _NARROW
        and (of.kind == "bytes" or of.size > _LONG_BYTES)
    )


def in_range(of: Type, column: Column) -> Column | None:
    """Whether each decimal that `widened` has changed is as its schema says; None without one."""
    from pyspark.sql import functions as sql

    if of.kind == NULLABLE:
        return in_range(of.inner(), column)
    if of.kind == "record":
        found = [in_range(each.type, column[each.name]) for each in of.fields]
        both: Column | None = None
        for each in found:
            both = each if both is None else both if each is None else both & each
        return both
    if of.kind in ("array", "map"):
        if widened(of) == of:
            return None
        values = sql.map_values(column) if of.kind == "map" else column

        def is_right(each: Column) -> Column:
            found = in_range(of.inner(), each)
            assert found is not None
            return found

        return column.isNull() | sql.forall(values, is_right)
    if not _is_narrow(of):
        return None
    assert of.logical is not None
    limit = Decimal(10 ** (of.logical.precision - of.logical.scale))
    return column.isNull() | (sql.abs(column) < sql.lit(limit))
