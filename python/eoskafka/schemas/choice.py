"""Which schemas a column uses, as the registry and the pin say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_REBASE_ON_WRITE = "spark.sql.avro.datetimeRebaseModeInWrite"


def require_session() -> SparkSession:
    """The session, which can decode and encode Avro.

    Raises:
        ConfigurationError: it cannot.
    """
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


def choose(
    asked: Requests, subject: str, version: Version | None, pin: str | None
) -> tuple[Registered, bool]:
    """The schema of a column, and whether the pin names it already."""
    if version is not None:
        require_version(subject, version)
    if pin is not None and (found := pins.look_up(asked, subject, version, pin)) is not None:
        return found, True
    if version is None and pin is None:
        raise ConfigurationError(
            "give `version`, `pin` or both: a restart must use the same schema, or it would "
            "decode or encode the records of a failed batch differently. version='latest' takes "
            "the newest one at each start"
        )
    return asked.version(subject, version or "latest"), False


def choose_to_write(
    registry: Registry,
    subject: str,
    version: Version | None,
    pin: str | None,
    schema: str | None,
    register: bool,
) -> tuple[Registered, bool]:
    """The schema of values to write, and whether the pin names it already."""
    if (schema is None) == (version is None and pin is None):
        raise ConfigurationError(
            "give `version`, `pin` or both, or else `schema`: exactly one of these two ways "
            "determines the schema of the values"
        )
    if register and schema is None:
        raise ConfigurationError("`register` needs the text of a schema in `schema`")
    spark = require_session()
    if str(spark.conf.get(_REBASE_ON_WRITE)).upper() == "LEGACY":
        raise ConfigurationError(
            f"{_REBASE_ON_WRITE} is LEGACY, so Spark would change old dates and timestamps. "
            "Nothing was written. Set it to CORRECTED"
        )
    with requests_of(registry) as asked:
        if schema is None:
            return choose(asked, subject, version, pin)
        found = asked.register(subject, schema) if register else asked.find(subject, schema)
        return found, False


def writers_of(asked: Requests, subject: str, ids: Sequence[int] | None) -> list[Registered]:
    """The schemas that values may have: all of the subject, or those that `ids` names."""
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
