"""What comes before a value: the byte 0, and the id of its schema in four bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column

PREFIX_BYTES = 5


def prefix_of(ident: int) -> bytearray:
    """The bytes before a value whose schema has this id."""
    return bytearray(b"\0" + ident.to_bytes(4, "big"))


def has_prefix(data: Column, idents: Sequence[int]) -> Column:
    """Whether a value begins with one of these ids."""
    from pyspark.sql import functions as sql

    return sql.substring(data, 1, PREFIX_BYTES).isin([prefix_of(each) for each in idents])


def is_framed(data: Column) -> Column:
    """Whether a value begins with an id."""
    from pyspark.sql import functions as sql

    is_long = sql.octet_length(data) >= PREFIX_BYTES
    return is_long & (sql.substring(data, 1, 1) == sql.lit(bytearray(b"\0")))


def ident_of(data: Column) -> Column:
    """The id as text; an unsigned number of four bytes."""
    from pyspark.sql import functions as sql

    return sql.conv(sql.hex(sql.substring(data, 2, 4)), 16, 10)
