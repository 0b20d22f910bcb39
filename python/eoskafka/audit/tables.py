"""What should have come out, as a table."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from eoskafka.errors import ConfigurationError

_PORTION_ROWS = 5_000
_BUFFER_BYTES = 1 << 20


class Table:
    """A Parquet file, or a folder of such, with columns `key`, `value` or both.

    Attributes:
        rows: how many it has.
    """

    def __init__(self, path: Path, columns: Collection[str]) -> None:
        """
        Args:
            path: where it is.
            columns: those that are needed; each of strings or binaries.

        Raises:
            ConfigurationError: it cannot be read so.
        """
        if (path / "_delta_log").is_dir():
            raise ConfigurationError(
                f"{path} is a Delta table, some of whose files may be removed rows: write what it "
                "holds as Parquet first"
            )
        try:
            self._data: Any = ds.dataset(path, format="parquet")
            self.rows = int(self._data.count_rows())
        except (OSError, pa.ArrowException) as error:
            raise ConfigurationError(f"{path} cannot be read as Parquet: {error}") from error
        self._columns = columns
        schema = self._data.schema
        for name in columns:
            if name not in schema.names:
                raise ConfigurationError(
                    f"{path} has no column {name}, but {', '.join(schema.names)}; records are told "
                    f"apart by {' and '.join(columns)}"
                )
            type_ = schema.field(name).type
            if not (_is_text(type_) or _is_binary(type_)):
                raise ConfigurationError(
                    f"column {name} of {path} is {type_}: cast it as the query does, to a string "
                    "or a binary"
                )

    def portions(self) -> Iterator[tuple[list[bytes | None], list[bytes | None]]]:
        """Keys and values, some rows at a time; a column that is not needed has no values."""
        # File by file: a data set's own scan decodes row groups whole, some of them ahead.
        for file in self._data.files:
            parquet = pq.ParquetFile(
                file, filesystem=self._data.filesystem, buffer_size=_BUFFER_BYTES
            )
            for batch in parquet.iter_batches(_PORTION_ROWS, columns=list(self._columns)):
                yield _bytes(batch, "key"), _bytes(batch, "value")


def _is_text(type_: Any) -> bool:
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_))


def _is_binary(type_: Any) -> bool:
    return bool(pa.types.is_binary(type_) or pa.types.is_large_binary(type_))


def _bytes(batch: Any, name: str) -> list[bytes | None]:
    if name not in batch.schema.names:
        return [None] * int(batch.num_rows)
    column = batch.column(name)
    if _is_text(column.type):
        column = column.cast(pa.large_binary())
    found: list[bytes | None] = column.to_pylist()
    return found
