"""Spark's Avro functions, and values in the wire format, made and read without the connector."""

from __future__ import annotations

import io
import struct
from functools import cache
from pathlib import Path
from typing import Any

import fastavro
from eoskafka.schemas import package

from harness import maven


@cache
def avro_jar() -> Path:
    """Of the installed pyspark; for `spark.jars`."""
    _, artifact, version = package().split(":")
    folder = Path(__file__).parents[3] / "build" / f"{artifact}-{version}-jars"
    if not (found := sorted(folder.glob("*.jar"))):
        found = maven.jars(
            "schemas",
            f"scala.version={artifact.rpartition('_')[2]}",
            f"spark.version={version}",
            "excludeTransitive=true",
            folder=folder,
        )
    (jar,) = found
    return jar


def framed(ident: int, schema: Any, value: Any) -> bytes:
    """A value in the wire format, by fastavro."""
    out = io.BytesIO()
    out.write(struct.pack(">bI", 0, ident))
    fastavro.schemaless_writer(out, schema, value)
    return out.getvalue()


def unframed(ident: int, schema: Any, data: bytes | None) -> Any:
    """What a value in the wire format says, by fastavro; it must have this id and end there."""
    assert data is not None
    assert struct.unpack(">bI", data[:5]) == (0, ident)
    rest = io.BytesIO(data[5:])
    value = fastavro.schemaless_reader(rest, schema, None)
    assert rest.read() == b""
    return value
