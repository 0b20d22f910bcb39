"""The schema that a query began with, in a file beside its checkpoint."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from eoskafka.errors import ConfigurationError
from eoskafka.schemas.registry import Registered, Requests, Version
from eoskafka.schemas.types import hash_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Of the line that the file has. Another number means that another eoskafka has to read it.
_FORMAT = 1


def pinned(asked: Requests, subject: str, version: Version | None, path: str) -> Registered:
    """The schema that `path` names; if it names none yet, `version` from now on.

    `path` is a folder with a text file of one line, which Spark reads and writes: so it may be
    wherever a checkpoint may be.

    Raises:
        ConfigurationError: `path` is no such folder or has two schemas, or it names another
            subject, version, id or schema than the program and the registry now do.
    """
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as sql

    spark = SparkSession.builder.getOrCreate()
    if not (lines := _lines(spark, path)):
        line = json.dumps(
            _content(asked.version(subject, "latest" if version is None else version))
        )
        row = spark.range(1, numPartitions=1).select(sql.lit(line).alias("value"))
        # Not `overwrite`: of two drivers that start at once, the other one may have read its line.
        row.write.mode("append").text(path)
        lines = _lines(spark, path)
    if len(lines) != 1:
        raise ConfigurationError(
            f"{path} has {len(lines)} schemas, because several drivers have started for the first "
            "time at once. Nothing was read or written. Find out which of its files has the "
            "schema that the query began with, and delete the others"
        )
    content = _parsed(path, lines[0])
    if content["subject"] != subject:
        raise ConfigurationError(
            f"{path} has a schema of the subject {content['subject']}, and not of {subject}. "
            "Nothing was read or written; give each column a `pin` of its own"
        )
    if version not in (None, "latest", content["version"]):
        raise ConfigurationError(
            f"{path} has version {content['version']} of the subject {subject}, with which the "
            f"query began, and the program asks for version {version}. {_way_out(path)}"
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


def _way_out(path: str) -> str:
    return (
        "Nothing was read or written. To continue with the former schema, ask for that version. To "
        "use another one, let the program with the former one finish the batch that it had begun, "
        f"stop it, delete {path}, and start the query"
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
        found = json.loads(line)
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


def _lines(spark: SparkSession, path: str) -> list[str]:
    """The different lines of the folder; none if it is not there."""
    from pyspark.errors import AnalysisException

    try:
        rows = spark.read.text(path).collect()
    except AnalysisException as error:
        if "PATH_NOT_FOUND" in str(error):
            return []
        raise
    return sorted({row[0] for row in rows})
