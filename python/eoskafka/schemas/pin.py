"""The schema that a query began with, in a file beside its checkpoint."""

from __future__ import annotations

import json
from typing import Any

from eoskafka import _json
from eoskafka.errors import ConfigurationError
from eoskafka.schemas.registry import Registered, Requests, Version
from eoskafka.schemas.types import hash_of

# Of the line that the file has. Another number means that another eoskafka has to read it.
_FORMAT = 1


def look_up(asked: Requests, subject: str, version: Version | None, path: str) -> Registered | None:
    """The schema that `path` names; None if it names none yet.

    `path` is a folder with a text file of one line, which Spark reads and writes: so it may be
    wherever a checkpoint may be.

    Raises:
        ConfigurationError: `path` is no such folder or has two schemas, or it names another
            subject, version, id or schema than the program and the registry now do.
    """
    if (content := _read(path)) is None:
        return None
    if content["subject"] != subject:
        raise ConfigurationError(
            f"{path} has a schema of the subject {content['subject']}, and not of {subject}. "
            "Nothing was read or written; give each column a `pin` of its own"
        )
    if version not in (None, "latest", content["version"]):
        raise ConfigurationError(
            f"{path} has version {content['version']} of the subject {subject}, with which the "
            f"query began, but the program asks for version {version}. {_way_out(path)}"
        )
    found = asked.version(subject, content["version"])
    if (now := _content(found)) != content:
        raise ConfigurationError(
            f"{path} has version {content['version']} of the subject {subject} with the schema id "
            f"{content['id']} and the hash {content['sha256']}, and in the registry this version "
            f"now has the schema id {now['id']} and the hash {now['sha256']}: the subject was "
            "deleted and registered again, or this is another registry. Connect to the registry "
            f"with which the query began, if it still exists. Otherwise: {_way_out(path)}"
        )
    return found


def write(schema: Registered, path: str) -> None:
    """Let `path` name this schema from now on.

    Raises:
        ConfigurationError: another driver has written there at the same time.
    """
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as sql

    content = _content(schema)
    if _read(path) is None:
        line = sql.lit(json.dumps(content)).alias("value")
        row = SparkSession.builder.getOrCreate().range(1, numPartitions=1).select(line)
        # Not `overwrite`: of two drivers that start at once, the other one may have read its line.
        row.write.mode("append").text(path)
    if _read(path) != content:
        raise ConfigurationError(
            f"another driver that has started at the same time has written another schema to "
            f"{path}. Nothing was read or written. Let only one of them run, and start it again"
        )


def _way_out(path: str) -> str:
    return (
        "Nothing was read or written. To continue with the former schema, ask for that version. To "
        "use another one: the pin was written when the column was made, so if no batch has begun "
        f"since, delete {path} and start the query. Otherwise let the program with the former "
        f"schema finish the batch that it had begun, stop it, and only then delete {path}"
    )


def _content(of: Registered) -> dict[str, Any]:
    return {
        "format": _FORMAT,
        "subject": of.subject,
        "version": of.version,
        "id": of.id,
        "sha256": hash_of(of.supported()),
    }


def _parsed(path: str, line: str) -> dict[str, Any]:
    kinds = {"format": int, "subject": str, "version": int, "id": int, "sha256": str}
    try:
        found = _json.parse(line)
    except ValueError:
        found = None
    if (
        not isinstance(found, dict)
        or {name: type(value) for name, value in found.items()} != kinds
        or found["format"] != _FORMAT
    ):
        raise ConfigurationError(
            f"{path} has another content than the schema of a query in the form {_FORMAT}: "
            f"{line[:200]!r}. Nothing was read or written; give `pin` a path of its own"
        )
    return found


def _read(path: str) -> dict[str, Any] | None:
    """What the folder says; None if it is not there or empty."""
    from pyspark.errors import AnalysisException
    from pyspark.sql import SparkSession

    try:
        rows = SparkSession.builder.getOrCreate().read.text(path).collect()
    except AnalysisException as error:
        if "PATH_NOT_FOUND" in str(error):
            return None
        raise
    lines = sorted({row[0] for row in rows})
    if len(lines) > 1:
        raise ConfigurationError(
            f"{path} has {len(lines)} schemas, because several drivers have started for the first "
            "time at once. Nothing was read or written. Find out which of its files has the "
            "schema that the query began with, and delete the others"
        )
    return _parsed(path, lines[0]) if lines else None
