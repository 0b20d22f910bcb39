"""What should have come out, as a table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from eoskafka.errors import ConfigurationError

_COLUMNS = ("key", "value")


def number_of_rows(path: Path) -> int:
    """Of a table; it is not read for it. Raises as `rows`."""
    return int(_open(path).count_rows())


def rows(path: Path) -> Iterator[tuple[list[bytes | None], list[bytes | None]]]:
    """Keys and values of a table, in portions.

    Args:
        path: a Parquet file or a folder of such, with columns `key`, `value` or both, of strings
            or binaries. A column that is not there has no values.

    Raises:
        ConfigurationError: it cannot be read so.
    """
    table = _open(path)
    present = [name for name in _COLUMNS if name in table.schema.names]
    for batch in table.to_batches(columns=present):
        keys, values = (_bytes(batch, name) for name in _COLUMNS)
        yield keys, values


def _open(path: Path) -> Any:
    try:
        table = ds.dataset(path, format="parquet")
    except (OSError, pa.ArrowInvalid) as error:
        raise ConfigurationError(f"{path} cannot be read as Parquet: {error}") from error
    types = {name: table.schema.field(name).type for name in _COLUMNS if name in table.schema.names}
    if not types:
        raise ConfigurationError(
            f"{path} has neither a column key nor a column value, but "
            f"{', '.join(table.schema.names)}"
        )
    for name, type_ in types.items():
        if not (_is_text(type_) or pa.types.is_binary(type_) or pa.types.is_large_binary(type_)):
            raise ConfigurationError(
                f"column {name} of {path} is {type_}: cast it as the query does, to a string or a "
                "binary"
            )
    return table


def _is_text(type_: Any) -> bool:
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_))


def _bytes(batch: Any, name: str) -> list[bytes | None]:
    if name not in batch.schema.names:
        return [None] * int(batch.num_rows)
    column = batch.column(name)
    if _is_text(column.type):
        column = column.cast(pa.large_binary())
    found: list[bytes | None] = column.to_pylist()
    return found
