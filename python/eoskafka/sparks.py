"""The versions of Spark that the connector runs on, as far as Python has to know them.

`io.eoskafka.spark.SparkVersion` has the same range; tests/unit/test_sparks.py compares both.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from eoskafka.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql.streaming.readwriter import DataStreamWriter

OLDEST = (3, 5)
NEWEST = (4, 3)
# The newest release whose spark-avro was found in Maven Central, and its line.
AVRO_RELEASE = "4.2.0"
AVRO_NEWEST = (4, 2)
# `configure` may be told to take a newer one; the JVM decides with the same setting.
ALLOW_UNTESTED = "spark.eoskafka.allowUntestedSpark"
# Spark 4.3 logs a real-time query's batches asynchronously by default, and refuses a sink that is
# not made for that. The connector reads Spark's log at a start, so the log must not be late.
ASYNC_PROGRESS = "spark.sql.streaming.realTimeMode.asyncProgressTrackingByDefault.enabled"

_FORM = re.compile(r"(\d+)\.(\d+)(?!\d)")


def line(version: str) -> tuple[int, int]:
    """Major and minor version of a text such as `4.1.1-amzn-0`; (0, 0) if it has none."""
    found = _FORM.match(version.strip())
    return (int(found[1]), int(found[2])) if found else (0, 0)


def text(version: tuple[int, int]) -> str:
    """`4.1`."""
    return f"{version[0]}.{version[1]}"


def scala(version: str) -> str:
    """The Scala version of pip's pyspark. Spark 3.5 is also there with Scala 2.13."""
    return "2.13" if line(version) >= (4, 0) else "2.12"


def supported() -> str:
    """The range, for messages."""
    return f"{text(OLDEST)} to {text(NEWEST)}"


def is_supported(version: str) -> bool:
    """Whether the tests run on this version's line."""
    return OLDEST <= line(version) <= NEWEST


def has_real_time(version: str) -> bool:
    """Whether this Spark has real-time mode."""
    return line(version) >= (4, 1)


def require_real_time(version: str) -> None:
    """ConfigurationError on a Spark without real-time mode."""
    if not has_real_time(version):
        raise ConfigurationError(
            f"Spark {version} has no real-time mode; Spark 4.1 is the first that has it. "
            "Use a processing-time trigger, with the option commitIntervalMs for early output"
        )


def tracks_asynchronously(version: str) -> bool:
    """Whether this Spark tracks the progress of real-time queries asynchronously by default."""
    return line(version) >= (4, 3)


def real_time_trigger(writer: DataStreamWriter, interval: str) -> DataStreamWriter:
    """`writer.trigger(realTime=interval)`, also on Spark 4.1, whose Python has no such argument.

    Args:
        writer: a query's `writeStream`.
        interval: how long a batch lasts, such as `"5 minutes"`.

    Raises:
        ConfigurationError: this Spark has no real-time mode (3.5, 4.0, and through Spark Connect
            4.1), or its session tracks the progress of such queries asynchronously (4.3).
    """
    import pyspark

    if not hasattr(writer, "_jwrite"):
        return _through_connect(writer, interval)
    version = pyspark.__version__
    require_real_time(version)
    _require_no_async_progress(version, writer._spark)
    jvm = writer._spark._sc._jvm
    assert jvm is not None
    trigger = getattr(jvm, "org.apache.spark.sql.streaming.Trigger").RealTime(interval)
    writer._jwrite = writer._jwrite.trigger(trigger)
    return writer


def _through_connect(writer: Any, interval: str) -> DataStreamWriter:
    """Through Spark Connect the trigger is a field of the request, which 4.1 does not have."""
    import pyspark

    session = writer._session
    for what, version in (("client", pyspark.__version__), ("server", session.version)):
        require_real_time(version)
        if line(version) < (4, 2):
            raise ConfigurationError(
                f"the {what} of Spark Connect is Spark {version}, and a client can ask for "
                "real-time mode from Spark 4.2 on. Use a classic session, or a processing-time "
                "trigger with the option commitIntervalMs for early output"
            )
    _require_no_async_progress(session.version, session)
    return writer.trigger(realTime=interval)  # type: ignore[no-any-return]


def _require_no_async_progress(version: str, session: Any) -> None:
    if tracks_asynchronously(version) and session.conf.get(ASYNC_PROGRESS) != "false":
        raise ConfigurationError(
            f"Spark {version} tracks the progress of real-time queries asynchronously, which "
            f"eoskafka does not support. Set {ASYNC_PROGRESS}=false in the session, as "
            "eoskafka.configure(builder, real_time=True) does"
        )
