"""What should have come out, as a table: Parquet or Delta."""

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
    """A Parquet file, a folder of such, or a Delta table, with columns `key`, `value` or both.

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
        self._columns = list(columns)
        is_delta = (path / "_delta_log").is_dir()
        self._table: _Parquet | _Delta = _Delta(path) if is_delta else _Parquet(path)
        self.rows = self._table.rows
        schema = self._table.schema
        for name in columns:
            if name not in schema.names:
                raise ConfigurationError(
                    f"{path} has no column {name}; its columns are {', '.join(schema.names)}. "
                    f"Records are identified by {' and '.join(columns)}"
                )
            type_ = schema.field(name).type
            if name in self._table.partitioned_by and _is_binary(type_):
                raise ConfigurationError(
                    f"{path} is partitioned by the binary column {name}, whose exact values are "
                    "not stored in its files"
                )
            if not (_is_text(type_) or _is_binary(type_)):
                raise ConfigurationError(
                    f"column {name} of {path} is {type_}: cast it as the query does, to a string "
                    "or a binary"
                )

    def portions(self) -> Iterator[tuple[list[bytes | None], list[bytes | None]]]:
        """Keys and values, some rows at a time; a column that is not needed has no values."""
        for batch in self._table.batches(self._columns):
            yield _bytes(batch, "key"), _bytes(batch, "value")


class _Parquet:
    def __init__(self, path: Path) -> None:
        try:
            self._data: Any = ds.dataset(path, format="parquet")
            self.rows = int(self._data.count_rows())
        except (OSError, pa.ArrowException) as error:
            raise ConfigurationError(f"{path} cannot be read as Parquet: {error}") from error
        self.schema = self._data.schema
        self.partitioned_by: list[str] = []

    def batches(self, columns: list[str]) -> Iterator[Any]:
        # File by file: a data set's own scan decodes row groups whole, some of them ahead.
        for file in self._data.files:
            parquet = pq.ParquetFile(
                file, filesystem=self._data.filesystem, buffer_size=_BUFFER_BYTES
            )
            yield from parquet.iter_batches(_PORTION_ROWS, columns=columns)


class _Delta:
    """Its newest version. Rows that it has removed, in files or by deletion vectors, are not there.

    Read by delta-rs, not by Spark: a proof shares no code with what wrote the table.
    """

    def __init__(self, path: Path) -> None:
        try:
            from deltalake import DeltaTable
            from deltalake.exceptions import DeltaError
        except ImportError as error:
            raise ConfigurationError(
                f"{path} is a Delta table, which is read with deltalake, and that is not "
                "installed: pip install deltalake"
            ) from error
        try:
            self._data = DeltaTable(path)
            self.rows = sum(
                int(batch.column(0)[0].as_py())
                for batch in self._query("select count(*) from expected")
            )
        except (OSError, ValueError, DeltaError, pa.ArrowException) as error:
            raise ConfigurationError(f"{path} cannot be read as Delta: {error}") from error
        self.schema = pa.schema(self._data.schema().to_arrow())
        self.partitioned_by = self._data.metadata().partition_columns

    def batches(self, columns: list[str]) -> Iterator[Any]:
        names = ", ".join('"' + name.replace('"', '""') + '"' for name in columns)
        # Each name is one of the table's schema, and quoted.
        for batch in self._query(f"select {names} from expected"):  # noqa: S608
            for start in range(0, batch.num_rows, _PORTION_ROWS):
                yield batch.slice(start, _PORTION_ROWS)

    def _query(self, text: str) -> Any:
        from deltalake import QueryBuilder
        from deltalake.exceptions import DeltaError

        try:
            found = QueryBuilder().register("expected", self._data).execute(text)
        except DeltaError as error:
            raise OSError(f"{error}") from error
        return pa.RecordBatchReader.from_stream(found)


def _is_text(type_: Any) -> bool:
    kinds = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(kind(type_) for kind in kinds)


def _is_binary(type_: Any) -> bool:
    kinds = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view)
    return any(kind(type_) for kind in kinds)


def _bytes(batch: Any, name: str) -> list[bytes | None]:
    if name not in batch.schema.names:
        return [None] * int(batch.num_rows)
    column = batch.column(name)
    if _is_text(column.type):
        column = column.cast(pa.large_string()).cast(pa.large_binary())
    found: list[bytes | None] = column.to_pylist()
    return found
